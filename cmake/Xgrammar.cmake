# The library `xgrammar`, from the source that tools/xgrammar unpacks: its C++ core alone, compiled as
# our own code is (sanitizers included), its messages going where constraints/xgrammar_log.cpp says.
set(xgrammar "${PACELINE_DEPS}/xgrammar")
if(NOT EXISTS "${xgrammar}/version")
  message(FATAL_ERROR "The source of xgrammar is missing: run ./dev setup, or tools/xgrammar")
endif()
file(GLOB xgrammar_sources "${xgrammar}/cpp/*.cc" "${xgrammar}/cpp/converter_ext/*.cc"
  "${xgrammar}/cpp/support/*.cc")
add_library(xgrammar STATIC ${xgrammar_sources})
target_include_directories(xgrammar SYSTEM PUBLIC "${xgrammar}/include"
  "${xgrammar}/3rdparty/dlpack/include")
target_include_directories(xgrammar SYSTEM PRIVATE "${xgrammar}/3rdparty/picojson")
target_include_directories(xgrammar PRIVATE "${PROJECT_SOURCE_DIR}")
target_compile_definitions(xgrammar PUBLIC
  XGRAMMAR_ENABLE_CPPTRACE=0 XGRAMMAR_ENABLE_INTERNAL_CHECK=0 XGRAMMAR_LOG_CUSTOMIZE=1)
target_compile_features(xgrammar PRIVATE cxx_std_17)
target_compile_options(xgrammar PRIVATE -w $<$<CONFIG:Release>:-O2>
  ${PACELINE_SANITIZE_OPTIONS})
set_target_properties(xgrammar PROPERTIES POSITION_INDEPENDENT_CODE ON UNITY_BUILD OFF CXX_STANDARD 17)
target_link_libraries(xgrammar PUBLIC Threads::Threads)
