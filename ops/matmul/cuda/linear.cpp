// Matrix products by cuBLASLt. It works on column-major matrices, and a row-major matrix is the transpose of a
// column-major one: every product below is stated for the transposes, so that nothing is copied.
//
// The algorithm is chosen when the kernel first gets its addresses. So a plan can be made without the device, and the
// workspace is the most that any algorithm may use.

#include "ops/matmul/linear.h"

#include <algorithm>
#include <map>
#include <optional>

#include "core/device/cuda/handle.h"
#include "ops/kernels/cuda/cuda_kernel.h"
#include "ops/kernels/cuda/empty.h"

namespace braid::cuda {

namespace {

/// NVIDIA's recommendation for Hopper (cuBLAS documentation, cublasSetWorkspace); more is rarely useful.
constexpr std::size_t kMostWorkspace = std::size_t{32} << 20;
/// The alignment that all kernels may assume: enough for vector loads. Arenas and parameters are aligned to more.
constexpr std::uint32_t kAlignment = 16;

using MatmulDescriptor = Handle<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using MatrixLayout = Handle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using MatmulPreference = Handle<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

/// A column-major matrix without gaps: `rows` is the extent that is contiguous in memory.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  bool transposed = false;  ///< used as its transpose
  std::int64_t next = 0;    ///< elements from one matrix of a batch to the next
};

/// d = op(a)·op(b) + bias, column-major; the bias has an element per row of d.
struct Product {
  Matrix a, b, d;
  bool bias = false;
  std::int64_t batches = 1;
};

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return CUDA_R_32F;
    case DType::f64: return CUDA_R_64F;
    case DType::f16: return CUDA_R_16F;
    case DType::bf16: return CUDA_R_16BF;
    default: throw DeviceError(message("[linear] cuBLASLt has no matrix product of ", dtype, " tensors"));
  }
}

cublasComputeType_t compute_type(DType dtype, bool tf32) {
  if (dtype == DType::f64) return CUBLAS_COMPUTE_64F;
  return dtype == DType::f32 && tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

MatrixLayout layout(const Matrix& matrix, DType dtype, std::int64_t batches) {
  cublasLtMatrixLayout_t raw = nullptr;
  BRAID_CUBLAS(cublasLtMatrixLayoutCreate(&raw, data_type(dtype), static_cast<std::uint64_t>(matrix.rows),
                                          static_cast<std::uint64_t>(matrix.columns), matrix.rows));
  MatrixLayout made(raw);
  if (batches > 1) {
    const auto set = [&](cublasLtMatrixLayoutAttribute_t attribute, const auto& value) {
      BRAID_CUBLAS(cublasLtMatrixLayoutSetAttribute(raw, attribute, &value, sizeof value));
    };
    set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batches));
    set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, matrix.next);
  }
  return made;
}

/// This thread's handle for choosing algorithms on the current device: the handles of streams are used by the streams
/// only. It is never destroyed: that would wait for the device, and break a capture of another thread.
cublasLtHandle_t planning_handle() {
  static thread_local std::map<int, cublasLtHandle_t> handles;
  int device = 0;
  BRAID_CUDA(cudaGetDevice(&device));
  cublasLtHandle_t& handle = handles[device];
  if (handle == nullptr) BRAID_CUBLAS(cublasLtCreate(&handle));
  return handle;
}

class MatmulKernel final : public Kernel {
 public:
  /// `first` and `second` are the node's inputs that the product calls a and b; a bias is its last input.
  MatmulKernel(const KernelSpec& spec, const Product& product, std::size_t first, std::size_t second)
      : name_(spec.op.name()),
        product_(product),
        dtype_(spec.outputs[0].dtype),
        deterministic_(spec.deterministic),
        workspace_bytes_(std::min(spec.workspace_limit, kMostWorkspace)),
        first_(first),
        second_(second),
        a_layout_(layout(product.a, dtype_, product.batches)),
        b_layout_(layout(product.b, dtype_, product.batches)),
        d_layout_(layout(product.d, dtype_, product.batches)) {
    cublasLtMatmulDesc_t raw = nullptr;
    BRAID_CUBLAS(cublasLtMatmulDescCreate(&raw, compute_type(dtype_, spec.tf32),
                                          dtype_ == DType::f64 ? CUDA_R_64F : CUDA_R_32F));
    matmul_ = MatmulDescriptor(raw);
    set(CUBLASLT_MATMUL_DESC_TRANSA, product.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, product.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (!product.bias) return;
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<std::int32_t>(data_type(dtype_)));
  }

  std::size_t workspace_bytes() const override { return workspace_bytes_; }

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    a_ = inputs[first_];
    b_ = inputs[second_];
    d_ = outputs[0];
    workspace_ = workspace;
    if (product_.bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, inputs.back());
    if (!algorithm_) algorithm_ = choose_algorithm();
  }

  void launch(const LaunchContext& context) override {
    const StreamHandles& stream = handles(context);
    const bool wide = dtype_ == DType::f64;
    const void* one = wide ? static_cast<const void*>(&kOne64) : &kOne32;
    const void* zero = wide ? static_cast<const void*>(&kZero64) : &kZero32;
    BRAID_CUBLAS(cublasLtMatmul(stream.cublas, matmul_, one, a_, a_layout_, b_, b_layout_, zero, d_, d_layout_, d_,
                                d_layout_, &*algorithm_, workspace_, workspace_bytes_, stream.stream));
  }

 private:
  static constexpr float kOne32 = 1, kZero32 = 0;
  static constexpr double kOne64 = 1, kZero64 = 0;

  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    BRAID_CUBLAS(cublasLtMatmulDescSetAttribute(matmul_, attribute, &value, sizeof value));
  }

  /// The first choice of cuBLASLt's heuristics on the current device. Sums that are split over k are either joined in
  /// the compute type and a fixed order or, if bitwise equal results are not required, in any order.
  cublasLtMatmulAlgo_t choose_algorithm() const {
    cublasLtMatmulPreference_t raw = nullptr;
    BRAID_CUBLAS(cublasLtMatmulPreferenceCreate(&raw));
    const MatmulPreference preference(raw);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      BRAID_CUBLAS(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value));
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{workspace_bytes_});
    if (deterministic_) {
      prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    }
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      prefer(attribute, kAlignment);
    }
    cublasLtMatmulHeuristicResult_t result{};
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(planning_handle(), matmul_, a_layout_, b_layout_,
                                                                 d_layout_, d_layout_, preference, 1, &result, &found);
    if (status != CUBLAS_STATUS_NOT_SUPPORTED) check_cublas(status, "cublasLtMatmulAlgoGetHeuristic");
    BRAID_CHECK(found > 0, DeviceError, "[", name_, "] cuBLASLt has no ", deterministic_ ? "deterministic " : "",
                "algorithm for a ", dtype_, " product with an output of ", product_.d.columns, 'x', product_.d.rows,
                " within ", workspace_bytes_, " bytes of workspace: allow more workspace",
                deterministic_ ? ", or set deterministic: false" : "");
    return result.algo;
  }

  std::string_view name_;
  Product product_;
  DType dtype_;
  bool deterministic_;
  std::size_t workspace_bytes_;
  std::size_t first_, second_;
  MatrixLayout a_layout_, b_layout_, d_layout_;
  MatmulDescriptor matmul_;
  std::optional<cublasLtMatmulAlgo_t> algorithm_;
  const void* a_ = nullptr;
  const void* b_ = nullptr;
  void* d_ = nullptr;
  void* workspace_ = nullptr;
};

/// y = a·b, the inputs of these numbers, plus input 2, if there is one, as the bias. The library computes yᵀ = bᵀ·aᵀ:
/// in memory a is [K,M] column-major, b [N,K] and y [N,M], or a and b are these transposed.
Implementations product(const KernelSpec& spec, std::size_t a, std::size_t b, const MatmulOptions& options) {
  if (is_empty(spec)) return zeros(spec);
  const auto [batches, m, n, k, a_step, b_step] =
      ops::MatmulExtents(options, spec.inputs[a].shape, spec.inputs[b].shape);
  const auto matrix = [](std::int64_t rows, std::int64_t columns, bool transposed, std::int64_t next) {
    return transposed ? Matrix{columns, rows, true, next} : Matrix{rows, columns, false, next};
  };
  const Product product{.a = matrix(n, k, options.transpose_b, b_step),
                        .b = matrix(k, m, options.transpose_a, a_step),
                        .d = {n, m, false, m * n},
                        .bias = spec.inputs.size() == 3,
                        .batches = batches};
  return std::make_unique<MatmulKernel>(spec, product, b, a);
}

}  // namespace

Implementations make_matmul(const KernelSpec& spec) { return product(spec, 0, 1, spec.attributes<ops::Matmul>()); }

Implementations make_linear(const KernelSpec& spec) { return product(spec, 0, 1, {.transpose_b = true}); }

Implementations make_linear_backward_data(const KernelSpec& spec) { return product(spec, 0, 1, {}); }

Implementations make_linear_backward_filter(const KernelSpec& spec) {
  return product(spec, 1, 0, {.transpose_a = true});
}

}  // namespace braid::cuda
