#pragma once
// Everything a program that trains a model needs.

#include "autograd/functions.h"
#include "data/fashion_mnist.h"
#include "data/loader.h"
#include "data/synthetic.h"
#include "models/lenet.h"
#include "models/registry.h"
#include "models/resnet.h"
#include "runtime/session.h"
#include "train/optimizer.h"
#include "train/schedule.h"
