# What a user may choose, and what every target is compiled with.
option(PACELINE_TESTS "Build the tests" ON)
option(PACELINE_WERROR "Treat warnings as errors" OFF)
option(PACELINE_FUZZ "Build the fuzz targets for libFuzzer (clang)" OFF)
set(PACELINE_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize= (address,undefined or thread)")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE}")
endif()

# It links the hundred programs of the tests in a third of the time.
include(CheckLinkerFlag)
check_linker_flag(CXX -fuse-ld=mold PACELINE_MOLD)
if(PACELINE_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

add_library(paceline_options INTERFACE)
# Contraction is off so that a sum has the same bits whatever the compiler fuses (promise 2).
# GCC 12 sees overlap (-Wrestrict) in "literal" + std::string where there is none.
# nvcc has options of its own (cmake/Cuda.cmake).
# Sources that are compiled together look to GCC like headers whose types others cannot see, and
# names at the top of one as if those inside functions of another hid them.
# Highway 1.0 knows NEON with the crypto extension only, and gives it to what we write by pragma, but
# not to the constructors that GCC writes itself. No instruction of it is used.
set(options -Wall -Wextra -Wpedantic -Wnon-virtual-dtor -Woverloaded-virtual -ffp-contract=off
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  $<IF:$<AND:$<BOOL:${CMAKE_UNITY_BUILD}>,$<CXX_COMPILER_ID:GNU>>,-Wshadow=local;-Wno-subobject-linkage,-Wshadow>
  $<$<STREQUAL:${CMAKE_SYSTEM_PROCESSOR},aarch64>:-march=armv8-a+crypto>
  $<$<BOOL:${PACELINE_WERROR}>:-Werror>)
target_compile_options(paceline_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${options}>")
if(PACELINE_SANITIZE)
  set(PACELINE_SANITIZE_OPTIONS
    -fsanitize=${PACELINE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  # A null pointer ends a program anyhow. To ask at each use of one (and, in the same breath, whether
  # it is aligned) is most of what sources full of templates take to compile.
  if(PACELINE_SANITIZE MATCHES undefined)
    list(APPEND PACELINE_SANITIZE_OPTIONS
      -fno-sanitize=null,alignment,object-size,vptr,nonnull-attribute,returns-nonnull-attribute)
  endif()
  target_compile_options(paceline_options INTERFACE ${PACELINE_SANITIZE_OPTIONS})
  target_link_options(paceline_options INTERFACE -fsanitize=${PACELINE_SANITIZE})
  if(PACELINE_SANITIZE MATCHES thread) # Of Asio's fences.
    target_compile_options(paceline_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
  endif()
endif()
if(PACELINE_FUZZ)
  target_compile_options(paceline_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(PACELINE_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL "Debug")
  target_compile_definitions(paceline_options INTERFACE _GLIBCXX_ASSERTIONS)
endif()
