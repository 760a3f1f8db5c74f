# paceline_layer(NAME SOURCES ... [LINKS ...] [PRIVATE_LINKS ...])
# One library per layer. Its link list is the list of layers it may include: a target that a layer
# does not link is not on its include path where that matters (CAF, Boost), and tools/check_layers
# checks the rest.
function(paceline_layer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS;PRIVATE_LINKS" ${ARGN})
  add_library(paceline_${name} STATIC ${ARG_SOURCES})
  add_library(Paceline::${name} ALIAS paceline_${name})
  target_include_directories(paceline_${name} PUBLIC
    "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/include")
  target_link_libraries(paceline_${name} PUBLIC ${ARG_LINKS} PRIVATE paceline_options ${ARG_PRIVATE_LINKS})
  set_target_properties(paceline_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
endfunction()
