#include "apps/terminal/chat/history.hpp"

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <sys/file.h>
#include <unistd.h>
#include <utility>

namespace paceline::apps {
namespace {

namespace fs = std::filesystem;

constexpr int history_lines_max = 1000;

struct Closer {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Closer>;

/// Opens the file at its end, for this chat alone until it is closed; null: it cannot be written.
File open_alone(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0)
    return nullptr;
  File file(fdopen(descriptor, "r+"));
  if (!file) {
    ::close(descriptor);
    return nullptr;
  }
  if (flock(descriptor, LOCK_EX) != 0)
    return nullptr;
  std::fseek(file.get(), 0, SEEK_END); // libedit writes its heading if a file is empty.
  return file;
}

bool is_empty(const std::string& path) {
  std::error_code failed;
  const auto size = fs::file_size(path, failed);
  return failed || size == 0;
}

/// Makes a history of at most so many lines.
History* new_history(int lines) {
  History* history = history_init();
  HistEvent event{};
  ::history(history, &event, H_SETSIZE, lines);
  return history;
}

/// Keeps only the newest lines.
void cut(const std::string& path) {
  const File file = open_alone(path);
  if (!file)
    return;
  History* newest = new_history(history_lines_max);
  HistEvent event{};
  const bool loaded = ::history(newest, &event, H_LOAD, path.c_str()) >= 0;
  if (loaded && ftruncate(fileno(file.get()), 0) == 0) {
    std::rewind(file.get());
    ::history(newest, &event, H_SAVE_FP, file.get());
  }
  history_end(newest);
}

} // namespace

ChatHistory::ChatHistory(std::string file)
    : file_(std::move(file)), history_(new_history(history_lines_max)) {
  HistEvent event{};
  ::history(history_, &event, H_SETUNIQUE, 1);
  if (file_.empty() || is_empty(file_))
    return;
  const int lines = ::history(history_, &event, H_LOAD, file_.c_str());
  if (lines < 0)
    file_.clear(); // Another program wrote this file, so nothing is written into it.
  else if (lines >= 2 * history_lines_max)
    cut(file_);
}

ChatHistory::~ChatHistory() {
  history_end(history_);
}

void ChatHistory::remember(const std::string& line) {
  HistEvent event{};
  if (line.find_first_not_of(" \t") == line.npos)
    return;
  ::history(history_, &event, H_ENTER, line.c_str());
  if (file_.empty())
    return;
  History* one = new_history(1); // H_SAVE_FP would write all of the other history.
  ::history(one, &event, H_ENTER, line.c_str());
  if (const File file = open_alone(file_))
    ::history(one, &event, H_SAVE_FP, file.get());
  history_end(one);
}

std::string history_file() {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  fs::path folder;
  if (state && state[0] == '/') // The specification says that relative paths are ignored.
    folder = state;
  else if (home && *home)
    folder = fs::path(home) / ".local/state";
  else
    return {};
  folder /= "paceline";
  std::error_code failed;
  fs::create_directories(folder, failed);
  return failed ? std::string() : (folder / "chat_history").string();
}

} // namespace paceline::apps
