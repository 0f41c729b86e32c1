#pragma once
// Everything a custom op needs: its definition, its kernels, their registration, and apply_op.

#include "autograd/functions.h"
#include "core/base/random.h"
#include "core/device/parallel.h"
#include "core/graph/op.h"
#include "ops/common/check.h"
#include "ops/kernels/function_kernel.h"
