#pragma once
// The ops as functions on tensors, of which models are written. Each records one node on the tape of its inputs, or a
// few. Floating inputs have one type unless it says otherwise; cast() brings them to it.

#include "autograd/functions/apply.h"
#include "autograd/functions/elementwise.h"
#include "autograd/functions/layout.h"
#include "autograd/functions/loss.h"
#include "autograd/functions/network.h"
