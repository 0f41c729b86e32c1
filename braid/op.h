#pragma once
// Everything that your own op needs: its definition, its kernels, their registration, and apply_op.

#include "autograd/functions.h"
#include "core/op.h"
#include "core/parallel.h"
#include "core/random.h"
#include "ops/common/check.h"
#include "ops/function_kernel.h"
