# Everything that is not ours, in one place: Debian 12's packages (tools/packages.txt), or the same
# unpacked under build/deps by tools/setup where installing them would remove one of the user's.
# All that is missing is reported at once, by the name of its Debian package.
# Boost's own configuration file is asked, not CMake's module for it, which is going away.
if(POLICY CMP0167)
  cmake_policy(SET CMP0167 NEW)
endif()

set(PACELINE_DEPS "${PROJECT_SOURCE_DIR}/build/deps" CACHE PATH "Where tools/setup unpacks packages")
if(EXISTS "${PACELINE_DEPS}/usr")
  list(PREPEND CMAKE_PREFIX_PATH "${PACELINE_DEPS}/usr")
endif()

set(missing_packages "")
macro(paceline_note package found)
  if(NOT ${found})
    list(APPEND missing_packages ${package})
  endif()
endmacro()

# paceline_find(DEBIAN_PACKAGE NAME [VERSION] [COMPONENTS ...]): a CMake package.
macro(paceline_find package name)
  find_package(${name} ${ARGN} QUIET)
  paceline_note("${package}" ${name}_FOUND)
endmacro()

# paceline_pkg_config(DEBIAN_PACKAGE MODULE): PkgConfig::MODULE.
macro(paceline_pkg_config package name module)
  if(PKG_CONFIG_FOUND)
    pkg_check_modules(${name} QUIET IMPORTED_TARGET ${module})
  endif()
  paceline_note(${package} ${name}_FOUND)
endmacro()

find_package(Threads REQUIRED)
paceline_find(libcaf-dev CAF 0.17.6)
paceline_find(libboost1.81-dev Boost 1.81)
paceline_find(libfmt-dev fmt)
paceline_find(libcli11-dev CLI11)
paceline_find(libtomlplusplus-dev tomlplusplus)
paceline_find(libspdlog-dev spdlog)
paceline_find(prometheus-cpp-dev prometheus-cpp)
paceline_find(libssl-dev OpenSSL)
paceline_find(libcurl4-openssl-dev CURL 7.85)
paceline_find("libprotobuf-dev protobuf-compiler" Protobuf 3.21)
paceline_find(libgrpc++-dev gRPC 1.51 CONFIG)
find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin)
paceline_note(protobuf-compiler-grpc GRPC_CPP_PLUGIN)
paceline_find(libexpected-dev tl-expected)
paceline_find(pkg-config PkgConfig)
paceline_pkg_config(libhwloc-dev hwloc hwloc)
paceline_pkg_config(libpcre2-dev pcre2 libpcre2-8)
paceline_pkg_config(libutf8proc-dev utf8proc libutf8proc)
paceline_pkg_config(libhwy-dev hwy libhwy)
paceline_pkg_config(libedit-dev libedit libedit)
if(PACELINE_TESTS)
  paceline_find(doctest-dev doctest)
  paceline_find(libboost-context1.81-dev boost_context 1.81)
endif()

if(missing_packages)
  list(JOIN missing_packages " " missing_packages)
  message(FATAL_ERROR "These Debian packages are missing: ${missing_packages}\n"
    "Run ./dev setup, or: sudo apt-get install ${missing_packages}")
endif()
message(STATUS "CAF ${CAF_VERSION}, Boost ${Boost_VERSION} (${Boost_DIR})")

add_library(paceline_boost_json STATIC cmake/boost_json.cpp)
add_library(Boost::json ALIAS paceline_boost_json)
target_link_libraries(paceline_boost_json PUBLIC Boost::headers)
target_compile_definitions(paceline_boost_json PUBLIC BOOST_JSON_STATIC_LINK BOOST_JSON_NO_LIB)
set_target_properties(paceline_boost_json PROPERTIES POSITION_INDEPENDENT_CODE ON)
