# Links between the libraries: only downwards (docs/architecture.md).

target_link_libraries(braid_core PUBLIC Threads::Threads PRIVATE $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>)  # headers only
if(BRAID_HAS_MPI)
  target_include_directories(braid_core SYSTEM PRIVATE ${MPI_CXX_INCLUDE_DIRS})
  target_compile_definitions(braid_core PRIVATE BRAID_MPI_FOLDER="${MPI_FOLDER}")
  target_link_libraries(braid_core PRIVATE ${CMAKE_DL_LIBS})
endif()
target_link_libraries(braid_ops PUBLIC braid_core)
target_compile_options(braid_ops PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fopenmp-simd>)  # loops to vectorise; no threads
target_link_libraries(braid_autograd PUBLIC braid_ops)
target_link_libraries(braid_scheduler PUBLIC braid_core)
target_link_libraries(braid_runtime PUBLIC braid_scheduler braid_autograd)
target_link_libraries(braid_models PUBLIC braid_autograd)
target_compile_options(braid_models PRIVATE ${BRAID_SELDOM})
target_link_libraries(braid_data PUBLIC braid_core PRIVATE ZLIB::ZLIB)
# stb_image computes with what a damaged file says: its integers may overflow, so they must wrap around.
set_source_files_properties(${PROJECT_SOURCE_DIR}/data/formats/image_file.cpp PROPERTIES
  SKIP_UNITY_BUILD_INCLUSION ON COMPILE_OPTIONS "-fwrapv;-fno-sanitize=shift")
target_link_libraries(braid_train PUBLIC braid_models braid_data braid_runtime
                      PRIVATE yaml-cpp::yaml-cpp ZLIB::ZLIB)
target_compile_options(braid_train PRIVATE ${BRAID_SELDOM})
if(BRAID_ONEDNN)
  target_link_libraries(braid_ops PRIVATE DNNL::dnnl ${CMAKE_DL_LIBS})
  target_compile_definitions(braid_ops PRIVATE BRAID_ONEDNN)
endif()
if(BRAID_HAS_CUDA)
  # Loads cuDNN, cuBLASLt and NCCL when they are first used.
  add_library(braid_cuda_libraries STATIC ${PROJECT_SOURCE_DIR}/core/device/cuda/loaded/libraries.cpp)
  set_target_properties(braid_cuda_libraries PROPERTIES EXPORT_NAME cuda_libraries)
  target_link_libraries(braid_cuda_libraries PRIVATE $<BUILD_INTERFACE:braid_settings> ${CMAKE_DL_LIBS})
  target_compile_definitions(braid_cuda_libraries PRIVATE BRAID_CUDNN_FOLDER="${CUDNN_FOLDER}"
                                                          BRAID_CUBLASLT_FOLDER="${CUBLASLT_FOLDER}")
  # A test may link a custom runtime in place of NVIDIA's libraries: then BRAID_CUDA_RUNTIME is its name.
  set(real $<STREQUAL:$<TARGET_PROPERTY:BRAID_CUDA_RUNTIME>,>)
  target_link_libraries(braid_core PUBLIC "$<${real}:CUDA::cudart_static>" "$<${real}:$<TARGET_NAME:braid_cuda_libraries>>"
                                          "$<$<NOT:${real}>:$<LINK_LIBRARY:WHOLE_ARCHIVE,$<TARGET_PROPERTY:BRAID_CUDA_RUNTIME>>>")
  set(headers $<BUILD_INTERFACE:${CUDAToolkit_INCLUDE_DIRS}> $<BUILD_INTERFACE:${CUDNN_INCLUDE_DIR}>)
  target_include_directories(braid_core SYSTEM PUBLIC ${headers})
  target_include_directories(braid_cuda_libraries SYSTEM PRIVATE ${headers})
  if(BRAID_HAS_NCCL)
    target_sources(braid_cuda_libraries PRIVATE ${PROJECT_SOURCE_DIR}/core/comm/nccl/library.cpp)
    target_compile_definitions(braid_cuda_libraries PRIVATE BRAID_NCCL_FOLDER="${NCCL_FOLDER}")
    target_include_directories(braid_cuda_libraries SYSTEM PRIVATE ${NCCL_INCLUDE_DIR})
    target_include_directories(braid_core SYSTEM PRIVATE ${NCCL_INCLUDE_DIR})
  endif()
  target_link_libraries(braid_ops PRIVATE ${CMAKE_DL_LIBS})
endif()

# Code that reads files is instrumented for coverage by the fuzzers.
if(BRAID_FUZZ)
  foreach(folder core scheduler data train)
    target_compile_options(braid_${folder} PRIVATE -fsanitize=fuzzer-no-link)
  endforeach()
endif()

add_library(braid INTERFACE)
add_library(braid::braid ALIAS braid)
target_link_libraries(braid INTERFACE braid_train)
