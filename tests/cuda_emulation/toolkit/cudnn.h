#pragma once
// The types of cuDNN that headers of core/device/cuda mention.

enum cudnnStatus_t { CUDNN_STATUS_SUCCESS = 0 };
using cudnnHandle_t = struct cudnnContext*;
