# Debian's libcaf-dev 0.17 ships no CMake package: find header and library by hand.
# Defines CAF::core, CAF::io and CAF::openssl.
find_path(CAF_INCLUDE_DIR caf/all.hpp)
find_library(CAF_CORE_LIBRARY caf_core)
find_library(CAF_IO_LIBRARY caf_io)
find_library(CAF_OPENSSL_LIBRARY caf_openssl)
if(CAF_INCLUDE_DIR AND EXISTS "${CAF_INCLUDE_DIR}/caf/config.hpp")
  file(STRINGS "${CAF_INCLUDE_DIR}/caf/config.hpp" _caf_line REGEX "#define CAF_VERSION [0-9]+")
  string(REGEX MATCH "[0-9]+$" _caf_number "${_caf_line}")
  math(EXPR _caf_major "${_caf_number} / 10000")
  math(EXPR _caf_minor "${_caf_number} / 100 % 100")
  math(EXPR _caf_patch "${_caf_number} % 100")
  set(CAF_VERSION "${_caf_major}.${_caf_minor}.${_caf_patch}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CAF REQUIRED_VARS CAF_CORE_LIBRARY CAF_IO_LIBRARY
  CAF_OPENSSL_LIBRARY CAF_INCLUDE_DIR
  VERSION_VAR CAF_VERSION)
if(CAF_FOUND AND NOT TARGET CAF::core)
  foreach(_caf_part core io openssl)
    string(TOUPPER ${_caf_part} _caf_upper)
    add_library(CAF::${_caf_part} UNKNOWN IMPORTED)
    set_target_properties(CAF::${_caf_part} PROPERTIES
      IMPORTED_LOCATION "${CAF_${_caf_upper}_LIBRARY}")
    target_include_directories(CAF::${_caf_part} SYSTEM INTERFACE "${CAF_INCLUDE_DIR}")
  endforeach()
  target_link_libraries(CAF::io INTERFACE CAF::core)
  target_link_libraries(CAF::openssl INTERFACE CAF::io)
endif()
