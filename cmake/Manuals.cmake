# Manual pages (where help2man is) and shells' completions: made from what the program says of
# itself, and installed.
set(manuals "${PROJECT_BINARY_DIR}/manuals")
set(outputs "")
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME program)
foreach(shell bash zsh fish)
  set(file "${manuals}/completion.${shell}")
  add_custom_command(OUTPUT "${file}"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${manuals}"
    COMMAND paceline completion ${shell} > "${file}"
    DEPENDS paceline VERBATIM)
  list(APPEND outputs "${file}")
endforeach()
install(FILES "${manuals}/completion.bash" RENAME paceline
  DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
install(FILES "${manuals}/completion.zsh" RENAME _paceline
  DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions")
install(FILES "${manuals}/completion.fish" RENAME paceline.fish
  DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d")

find_program(HELP2MAN help2man)
if(HELP2MAN)
  add_custom_command(OUTPUT "${manuals}/man1/paceline.1.gz"
    COMMAND "${PROJECT_SOURCE_DIR}/tools/man_pages" "$<TARGET_FILE:paceline>" "${manuals}/man1"
    DEPENDS paceline "${PROJECT_SOURCE_DIR}/tools/man_pages" VERBATIM)
  list(APPEND outputs "${manuals}/man1/paceline.1.gz")
  install(DIRECTORY "${manuals}/man1" DESTINATION "${CMAKE_INSTALL_MANDIR}")
else()
  message(STATUS "Without help2man there are no manual pages")
endif()
add_custom_target(manuals ALL DEPENDS ${outputs})
