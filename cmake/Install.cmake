# What `cmake --install` and packages (Package.cmake) hold: the program, two shared libraries (engine,
# client) with the public headers' names and no others, CMake and pkg-config files, the demo pair.
# Everything behind the public headers (CAF, Boost, protobuf, our layers) stays inside the libraries.
# Each file belongs to a component: program, library, development, data or documents.
# Debian keeps the libraries of each architecture apart, wherever something is installed.
if(EXISTS /etc/debian_version AND CMAKE_LIBRARY_ARCHITECTURE AND NOT DEFINED CMAKE_INSTALL_LIBDIR)
  set(CMAKE_INSTALL_LIBDIR "lib/${CMAKE_LIBRARY_ARCHITECTURE}" CACHE STRING "Where libraries go")
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(documents "${CMAKE_INSTALL_DATADIR}/doc/paceline") # as Debian spells its packages

add_library(paceline_library SHARED "${PROJECT_SOURCE_DIR}/cmake/library.cpp")
set(symbols "${PROJECT_SOURCE_DIR}/cmake/library.map")
target_link_libraries(paceline_library
  PUBLIC tl::expected
  PRIVATE paceline_options paceline_nodes)
target_include_directories(paceline_library PRIVATE include)
target_link_options(paceline_library PRIVATE "LINKER:--version-script=${symbols}")
target_include_directories(paceline_library INTERFACE "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
target_compile_features(paceline_library INTERFACE cxx_std_20)
set_target_properties(paceline_library PROPERTIES
  LINK_LIBRARY_OVERRIDE "WHOLE_ARCHIVE,paceline_actors,paceline_nodes"
  OUTPUT_NAME paceline EXPORT_NAME engine LINK_DEPENDS "${symbols}"
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})

# Paceline::asio as an installed package sees it; its own export, since it alone needs Boost.
add_library(paceline_library_asio INTERFACE)
set_target_properties(paceline_library_asio PROPERTIES EXPORT_NAME asio)
target_link_libraries(paceline_library_asio INTERFACE paceline_library Boost::headers Threads::Threads)

# Paceline::client: a library of its own, without the engine.
add_library(paceline_library_client SHARED "${PROJECT_SOURCE_DIR}/cmake/library.cpp")
set(client_symbols "${PROJECT_SOURCE_DIR}/cmake/library_client.map")
target_link_libraries(paceline_library_client
  PUBLIC tl::expected
  PRIVATE paceline_options paceline_net)
target_link_libraries(paceline_library_client INTERFACE Boost::headers Threads::Threads)
target_include_directories(paceline_library_client PRIVATE include
  INTERFACE "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
target_link_options(paceline_library_client PRIVATE "LINKER:--version-script=${client_symbols}")
target_compile_features(paceline_library_client INTERFACE cxx_std_20)
set_target_properties(paceline_library_client PROPERTIES
  LINK_LIBRARY_OVERRIDE "WHOLE_ARCHIVE,paceline_net"
  OUTPUT_NAME paceline-client EXPORT_NAME client LINK_DEPENDS "${client_symbols}"
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})

set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/Paceline")
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME program)
install(TARGETS paceline RUNTIME)
# The service, which nothing starts by itself. Where it is installed is known when it is.
install(CODE "set(PACELINE_BINDIR \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\")
configure_file(\"${PROJECT_SOURCE_DIR}/cmake/paceline.service.in\"
  \"${PROJECT_BINARY_DIR}/paceline.service\" @ONLY)")
install(FILES "${PROJECT_BINARY_DIR}/paceline.service" DESTINATION lib/systemd/system)

set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)
install(TARGETS paceline_library EXPORT PacelineTargets
  LIBRARY COMPONENT library NAMELINK_COMPONENT development)
install(TARGETS paceline_library_asio EXPORT PacelineAsioTargets)
install(TARGETS paceline_library_client EXPORT PacelineClientTargets
  LIBRARY COMPONENT library NAMELINK_COMPONENT development)
install(DIRECTORY include/paceline DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT PacelineTargets NAMESPACE Paceline:: DESTINATION "${package_folder}")
install(EXPORT PacelineAsioTargets NAMESPACE Paceline:: DESTINATION "${package_folder}")
install(EXPORT PacelineClientTargets NAMESPACE Paceline:: DESTINATION "${package_folder}")
configure_package_config_file(cmake/PacelineConfig.cmake.in "${PROJECT_BINARY_DIR}/PacelineConfig.cmake"
  INSTALL_DESTINATION "${package_folder}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/PacelineConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/PacelineConfig.cmake"
  "${PROJECT_BINARY_DIR}/PacelineConfigVersion.cmake" DESTINATION "${package_folder}")
file(RELATIVE_PATH prefix_from_pc "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" /)
string(REGEX REPLACE "/$" "" prefix_from_pc "${prefix_from_pc}")
foreach(name paceline paceline-client)
  configure_file(cmake/paceline.pc.in "${PROJECT_BINARY_DIR}/${name}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${name}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endforeach()

# What program and library look for beside themselves, and the protocol, for clients in other languages.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME data)
install(DIRECTORY models/demo DESTINATION "${CMAKE_INSTALL_DATADIR}/paceline"
  FILES_MATCHING PATTERN "*.json" PATTERN "*.safetensors" PATTERN "README.md")
install(FILES apps/laboratory/bench/prompts.json net/paceline.proto
  DESTINATION "${CMAKE_INSTALL_DATADIR}/paceline")

# The documents, with what they link to, as they lie in the source tree.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME documents)
install(FILES README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md Containerfile LICENSE
  DESTINATION "${documents}")
install(DIRECTORY docs DESTINATION "${documents}" PATTERN "Doxyfile" EXCLUDE)
install(DIRECTORY apps/examples DESTINATION "${documents}/apps" FILES_MATCHING PATTERN "*.cpp")
install(FILES models/demo/README.md DESTINATION "${documents}/models/demo")
install(FILES net/paceline.proto DESTINATION "${documents}/net")
install(FILES tools/packages.txt DESTINATION "${documents}/tools")
