# Before packages are made of what was staged: each gets its changelog, and files are as old as
# SOURCE_DATE_EPOCH says, where it is set, so that the same sources make the same packages.
set(PROJECT_VERSION "${CPACK_PACKAGE_VERSION}")
set(PACELINE_MAINTAINER "${CPACK_PACKAGE_CONTACT}")
string(TIMESTAMP changelog_date "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(GLOB copyrights "${CPACK_TEMPORARY_DIRECTORY}/*/usr/share/doc/*/copyright")
foreach(copyright IN LISTS copyrights)
  get_filename_component(folder "${copyright}" DIRECTORY)
  configure_file("${CMAKE_CURRENT_LIST_DIR}/changelog.in" "${folder}/changelog" @ONLY)
  execute_process(COMMAND gzip -9nf "${folder}/changelog" COMMAND_ERROR_IS_FATAL ANY)
endforeach()
if(DEFINED ENV{SOURCE_DATE_EPOCH})
  execute_process(COMMAND find "${CPACK_TEMPORARY_DIRECTORY}" -exec
    touch --no-dereference "--date=@$ENV{SOURCE_DATE_EPOCH}" {} + COMMAND_ERROR_IS_FATAL ANY)
endif()
