# paceline_layer(NAME SOURCES ... [LINKS ...] [PRIVATE_LINKS ...])
# One library per layer, defined from the bottom up. A layer may link only layers that are already
# there; tools/check_layers holds its includes to the same order.
function(paceline_layer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS;PRIVATE_LINKS" ${ARGN})
  foreach(link IN LISTS ARG_LINKS ARG_PRIVATE_LINKS)
    if(link MATCHES "^Paceline::" AND NOT TARGET ${link})
      message(FATAL_ERROR "The layer ${name} may not link ${link}: it does not stand below ${name}")
    endif()
  endforeach()
  add_library(paceline_${name} STATIC ${ARG_SOURCES})
  add_library(Paceline::${name} ALIAS paceline_${name})
  target_include_directories(paceline_${name} PUBLIC
    "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/include")
  target_link_libraries(paceline_${name} PUBLIC ${ARG_LINKS} PRIVATE paceline_options ${ARG_PRIVATE_LINKS})
  set_target_properties(paceline_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
endfunction()
