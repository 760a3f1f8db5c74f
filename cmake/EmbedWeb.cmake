# Writes OUTPUT, a C++ file with the contents of FILES: cmake -DFILES=... -DOUTPUT=... -P this.
# A file of the page is text, and a raw string takes it as it is.
set(entries "")
foreach(path IN LISTS FILES)
  get_filename_component(name "${path}" NAME)
  file(SHA256 "${path}" hash)
  string(SUBSTRING "${hash}" 0 16 hash)
  file(READ "${path}" content)
  string(APPEND entries "    {\"${name}\", \"${hash}\", R\"==web==(${content})==web==\"},\n")
endforeach()
file(WRITE "${OUTPUT}" "// Made by cmake/EmbedWeb.cmake.
#include \"apps/server/web.hpp\"

namespace paceline::apps::serve {
namespace {
constexpr WebFile files[] = {
${entries}};
} // namespace

std::span<const WebFile> web_files() {
  return files;
}
} // namespace paceline::apps::serve
")
