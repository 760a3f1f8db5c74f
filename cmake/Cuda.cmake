# NVIDIA's compiler, if it is there and wanted: sets PACELINE_HAS_CUDA and enables the language.
# One program runs with and without a driver: the runtime is linked statically and looks for the
# driver when it is asked.
set(PACELINE_CUDA auto CACHE STRING "Build the CUDA back end: auto (where nvcc 12 or 13 is), on, off")
set_property(CACHE PACELINE_CUDA PROPERTY STRINGS auto on off)
set(PACELINE_HAS_CUDA FALSE)
string(TOLOWER "${PACELINE_CUDA}" wanted)
if(NOT wanted MATCHES "^(auto|on|off)$")
  message(FATAL_ERROR "PACELINE_CUDA is ${PACELINE_CUDA}: give auto, on or off")
endif()
if(wanted STREQUAL "off")
  return()
endif()

find_program(PACELINE_NVCC nvcc HINTS ENV CUDACXX ENV CUDA_PATH ENV CUDA_HOME
  PATHS /usr/local/cuda /opt/cuda PATH_SUFFIXES bin)
set(nvcc_version "")
if(PACELINE_NVCC)
  execute_process(COMMAND "${PACELINE_NVCC}" --version OUTPUT_VARIABLE nvcc_version)
  string(REGEX MATCH "release ([0-9]+\\.[0-9]+)" nvcc_version "${nvcc_version}")
  set(nvcc_version "${CMAKE_MATCH_1}")
endif()
if(NOT nvcc_version OR nvcc_version VERSION_LESS 12.0 OR nvcc_version VERSION_GREATER_EQUAL 14)
  set(why "nvcc 12 or 13 was not found")
  if(nvcc_version)
    set(why "${PACELINE_NVCC} is of CUDA ${nvcc_version}, not 12 or 13")
  endif()
  if(wanted STREQUAL "on")
    message(FATAL_ERROR "PACELINE_CUDA=on, but ${why}")
  endif()
  message(STATUS "Without CUDA: ${why}")
  return()
endif()

# Kernels for each, and PTX of the newest for GPUs to come. CI, which has none, compiles for one.
set(architectures 80 86 89 90)
if(nvcc_version VERSION_GREATER_EQUAL 12.8)
  list(APPEND architectures 100 120)
endif()
if("$ENV{CI}" STREQUAL "true")
  set(architectures 90)
endif()
set(PACELINE_CUDA_ARCHITECTURES "${architectures}" CACHE STRING
  "Compute capabilities that kernels are built for, such as 90 or 80;90, in ascending order")
set(architectures ${PACELINE_CUDA_ARCHITECTURES})
list(TRANSFORM architectures APPEND -real OUTPUT_VARIABLE CMAKE_CUDA_ARCHITECTURES)
list(GET architectures -1 newest)
list(APPEND CMAKE_CUDA_ARCHITECTURES ${newest}-virtual)

set(CMAKE_CUDA_COMPILER "${PACELINE_NVCC}" CACHE FILEPATH "NVIDIA's compiler")
if(NOT CMAKE_CUDA_HOST_COMPILER)
  set(CMAKE_CUDA_HOST_COMPILER "${CMAKE_CXX_COMPILER}")
endif()
if(CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${CCACHE}")
endif()
enable_language(CUDA)
# CMake 3.25 does not know that nvcc 12 and 13 compile C++20.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
find_package(CUDAToolkit REQUIRED)
set(PACELINE_HAS_CUDA TRUE)
# Its header alone: the library, half a gigabyte, is loaded when somebody asks for it.
find_path(PACELINE_CUBLAS_INCLUDE cublasLt.h HINTS ${CUDAToolkit_INCLUDE_DIRS} NO_CACHE)
set(PACELINE_HAS_CUBLAS ${PACELINE_CUBLAS_INCLUDE})
# Headers alone: NVIDIA's profilers bring the library.
find_path(PACELINE_NVTX_INCLUDE nvtx3/nvToolsExt.h HINTS ${CUDAToolkit_INCLUDE_DIRS} NO_CACHE)
set(PACELINE_HAS_NVTX ${PACELINE_NVTX_INCLUDE})
list(JOIN architectures "," PACELINE_CUDA_BUILT_FOR)
message(STATUS "CUDA ${nvcc_version} (${PACELINE_NVCC}) for ${PACELINE_CUDA_BUILT_FOR}")

# Products and sums are fused only where a kernel says so (fmaf): a row has the same bits whichever
# kernel computes it.
add_library(paceline_cuda_options INTERFACE)
target_compile_options(paceline_cuda_options INTERFACE
  $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false --expt-relaxed-constexpr
  -Xcompiler=-Wall,-Wextra,-ffp-contract=off>)
