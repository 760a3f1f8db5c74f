#include "base/file.hpp"
#include "tests/base/contents.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

using namespace paceline;
using base::can_write_file;
using paceline::testing::contents;
using testing::TemporaryFolder;
namespace fs = std::filesystem;

namespace {

Result<void> write(const std::string& path, const std::string& text = "new") {
  return base::write_file(path, [&](std::FILE* out) { std::fputs(text.c_str(), out); });
}

unsigned mode_of(const std::string& path) {
  struct stat status {};
  REQUIRE(stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777U;
}

} // namespace

TEST_CASE("a file that was not there has the mode that the system gives, one that was its own") {
  const TemporaryFolder folder;
  const std::string path = folder.file("file");
  const mode_t before = umask(027);
  REQUIRE(write(path));
  umask(before);
  CHECK(mode_of(path) == 0640);
  chmod(path.c_str(), 0604);
  REQUIRE(write(path, "newer"));
  CHECK(contents(path) == "newer");
  CHECK(mode_of(path) == 0604);
  CHECK(folder.entries() == 1);
}

TEST_CASE("links stay, and what they lead to is written, be it there or not") {
  const TemporaryFolder folder;
  fs::create_directory(folder.file("deep"));
  fs::create_symlink("deep/second", folder.file("first"));
  fs::create_symlink("file", folder.file("deep/second"));
  for (const char* text : {"one", "two"}) {
    CHECK(can_write_file(folder.file("first")));
    REQUIRE(write(folder.file("first"), text));
    CHECK(contents(folder.file("deep/file")) == text);
    CHECK(fs::is_symlink(folder.file("first")));
    CHECK(fs::is_symlink(folder.file("deep/second")));
  }
}

TEST_CASE("a pipe is written to, and stays one") {
  const TemporaryFolder folder;
  const std::string path = folder.file("pipe");
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  CHECK(can_write_file(path));
  REQUIRE(write(path, "through"));
  char text[16] = {};
  CHECK(read(reader, text, sizeof text) == 7);
  CHECK(std::string(text) == "through");
  close(reader);
  CHECK(fs::is_fifo(path));
  CHECK(folder.entries() == 1);
}

TEST_CASE("a device is written to, and one that is full is an error that says so") {
  CHECK(can_write_file("/dev/full"));
  const auto full = write("/dev/full");
  REQUIRE(!full);
  CHECK(full.error().text().find("/dev/full (No space left on device)") != std::string::npos);
  CHECK(fs::is_character_file("/dev/full"));
  CHECK(write("/dev/null").has_value());
}

TEST_CASE("what a process has open is added to, even where it is a file") {
  const TemporaryFolder folder;
  const std::string path = folder.file("log");
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  REQUIRE(::write(file, "before ", 7) == 7);
  REQUIRE(write("/dev/fd/" + std::to_string(file), "after"));
  close(file);
  CHECK(contents(path) == "before after");
  CHECK(folder.entries() == 1);
}

TEST_CASE("folders, and names in folders that are not there, cannot be written") {
  const TemporaryFolder folder;
  for (const std::string& path :
       {folder.path(), folder.file("absent/file"), folder.file("name/"), std::string()}) {
    CAPTURE(path);
    CHECK(!can_write_file(path));
    CHECK(!write(path));
  }
  CHECK(folder.entries() == 0);
}
