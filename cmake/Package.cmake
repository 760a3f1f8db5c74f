# The Debian packages, one for each component that Install.cmake names: ./dev package deb, which is
# `cpack -G DEB --config build/release/CPackConfig.cmake` where the time of the last commit is known.
set(PACELINE_MAINTAINER "Paceline <paceline@example.org>" CACHE STRING
  "Who answers for the .deb: name and address; whoever hands it on sets it")
set(CPACK_PACKAGE_NAME paceline)
set(CPACK_PACKAGE_VENDOR Paceline)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "") # Each package has a first line of its own.
set(CPACK_PACKAGE_CONTACT "${PACELINE_MAINTAINER}")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_PRE_BUILD_SCRIPTS "${PROJECT_SOURCE_DIR}/cmake/debian/stage.cmake")

# paceline_deb(COMPONENT PACKAGE SECTION SUMMARY DESCRIPTION)
# The description's lines begin as Debian's do, but for the blank in front of each.
set(CPACK_COMPONENTS_ALL)
macro(paceline_deb component package section summary description)
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${package})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${summary}\n${description}")
  install(FILES cmake/debian/copyright # stage.cmake puts the changelog beside it
    DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/${package}" COMPONENT ${component} EXCLUDE_FROM_ALL)
endmacro()

set(soversion ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
paceline_deb(program paceline science "speculative decoding in which draft and target work at once"
"Large language models run faster and write the same: a small model drafts
tokens, the large one verifies them, and both work at the same time.
The program: a server with OpenAI's API, a chat, measurements.")
paceline_deb(library libpaceline${soversion} libs "speculative decoding, as shared libraries"
"An engine for large language models in which draft and target model work at
the same time, and the client of a server that has one.
The libraries that programs load.")
paceline_deb(development libpaceline-dev libdevel "speculative decoding, for programs in C++"
"An engine for large language models in which draft and target model work at
the same time, and the client of a server that has one.
The headers, with files for CMake and pkg-config.")
paceline_deb(data paceline-data science "pair of small models for Paceline"
"The demo pair, a target and a draft model that complete Python, the prompts
of measurements, and the protocol of the server's gRPC port.")
paceline_deb(documents paceline-doc doc "speculative decoding in which draft and target work at once: documents"
"What Paceline's program and libraries do, how to serve and to embed them, what
was measured, and why it is built as it is.")

install(FILES cmake/debian/lintian-overrides RENAME libpaceline${soversion}
  DESTINATION "${CMAKE_INSTALL_DATADIR}/lintian/overrides" COMPONENT library EXCLUDE_FROM_ALL)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA "${PROJECT_SOURCE_DIR}/cmake/debian/triggers")
set(CPACK_DEBIAN_DATA_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_DOCUMENTS_PACKAGE_ARCHITECTURE all)
# The demo pair is what runs where no model is named; `paceline pull` trusts who certificates say.
set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS "paceline-data (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS ca-certificates)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS paceline-doc)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_RECOMMENDS "paceline-data (= ${PROJECT_VERSION})")
# What programs that include the headers need besides: tl::expected, and Boost for paceline/asio.hpp
# and paceline/client.hpp.
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
  "libpaceline${soversion} (= ${PROJECT_VERSION}), libexpected-dev")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS "libboost1.81-dev | libboost-dev (>= 1.81), paceline-doc")
include(CPack)
