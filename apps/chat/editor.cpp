#include "apps/chat/editor.hpp"

#include "apps/chat/command.hpp"

#include <array>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdlib>
#include <cwchar>
#include <filesystem>
#include <histedit.h>
#include <iostream>
#include <langinfo.h>
#include <poll.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace paceline::apps {
namespace {

constexpr int history_lines_max = 1000;

volatile std::sig_atomic_t resized = 0;

/// Characters are those of UTF-8, whatever the user's language.
void use_utf8() {
  std::setlocale(LC_CTYPE, "");
  if (std::string_view(nl_langinfo(CODESET)) != "UTF-8")
    std::setlocale(LC_CTYPE, "C.UTF-8");
}

class Editor final : public LineSource {
public:
  explicit Editor(EditorOptions options);
  ~Editor() override;
  Editor(const Editor&) = delete;
  Editor& operator=(const Editor&) = delete;
  Typed next(const std::string& prompt) override;

private:
  static Editor& of(EditLine* edit);
  static char* prompt_of(EditLine* edit) { return of(edit).prompt_.data(); }
  static int read_character(EditLine* edit, wchar_t* out);
  static unsigned char complete(EditLine* edit, int key);
  int read_character(wchar_t* out);
  bool await_input();
  void remember(const std::string& line);

  EditLine* edit_;
  History* history_;
  EditorOptions options_;
  std::string prompt_;
  bool interrupted_ = false;
};

Editor::Editor(EditorOptions options) : options_(std::move(options)) {
  use_utf8();
  struct sigaction on_resize {};
  on_resize.sa_handler = [](int) { resized = 1; };
  sigaction(SIGWINCH, &on_resize, nullptr); // without SA_RESTART: it wakes the poll
  edit_ = el_init("paceline", stdin, stdout, stderr);
  history_ = history_init();
  HistEvent event{};
  history(history_, &event, H_SETSIZE, history_lines_max);
  history(history_, &event, H_SETUNIQUE, 1);
  if (!options_.history.empty())
    history(history_, &event, H_LOAD, options_.history.c_str());
  el_set(edit_, EL_CLIENTDATA, this);
  el_set(edit_, EL_PROMPT, prompt_of);
  el_set(edit_, EL_EDITOR, "emacs");
  el_set(edit_, EL_HIST, history, history_);
  el_set(edit_, EL_GETCFN, static_cast<int (*)(EditLine*, wchar_t*)>(read_character));
  el_set(edit_, EL_ADDFN, "paceline-complete", "Completes a command", complete);
  el_set(edit_, EL_BIND, "^I", "paceline-complete", nullptr);
  el_set(edit_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  el_source(edit_, nullptr); // the user's own keys
}

Editor::~Editor() {
  HistEvent event{};
  if (!options_.history.empty()) {
    const mode_t before = umask(077); // what one types is nobody else's business
    history(history_, &event, H_SAVE, options_.history.c_str());
    umask(before);
  }
  history_end(history_);
  el_end(edit_);
}

Editor& Editor::of(EditLine* edit) {
  void* self = nullptr;
  el_get(edit, EL_CLIENTDATA, &self);
  return *static_cast<Editor*>(self);
}

/// False: interrupted.
bool Editor::await_input() {
  std::array files{pollfd{STDIN_FILENO, POLLIN, 0}, pollfd{options_.wake, POLLIN, 0}};
  for (;;) {
    const int ready = poll(files.data(), files.size(), -1);
    if (resized != 0) {
      resized = 0;
      el_resize(edit_);
      el_set(edit_, EL_REFRESH);
    }
    if (ready <= 0)
      continue;
    return (files[1].revents & POLLIN) == 0;
  }
}

int Editor::read_character(EditLine* edit, wchar_t* out) {
  return of(edit).read_character(out);
}

int Editor::read_character(wchar_t* out) {
  std::mbstate_t state{};
  for (;;) {
    if (!await_input()) {
      interrupted_ = true;
      errno = EINTR;
      return -1;
    }
    char byte = 0;
    const ssize_t count = ::read(STDIN_FILENO, &byte, 1);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return int(count);
    const std::size_t size = std::mbrtowc(out, &byte, 1, &state);
    if (size == std::size_t(-1))
      state = {}; // not UTF-8: left out
    else if (size != std::size_t(-2))
      return 1;
  }
}

unsigned char Editor::complete(EditLine* edit, int /*key*/) {
  const LineInfo* line = el_line(edit);
  const std::string_view begun(line->buffer, std::size_t(line->cursor - line->buffer));
  const std::string rest = chat_completion(begun);
  if (rest.empty() || el_insertstr(edit, rest.c_str()) != 0)
    return CC_ERROR;
  return CC_REFRESH;
}

void Editor::remember(const std::string& line) {
  HistEvent event{};
  if (line.find_first_not_of(" \t") != line.npos)
    history(history_, &event, H_ENTER, line.c_str());
}

Typed Editor::next(const std::string& prompt) {
  prompt_ = prompt;
  interrupted_ = false;
  el_resize(edit_);
  int count = 0;
  const char* text = el_gets(edit_, &count);
  if (interrupted_) {
    char dropped[64];
    (void)!::read(options_.wake, dropped, sizeof dropped);
    el_reset(edit_);
    std::fputs("\n", stdout);
    std::fflush(stdout);
    return {Typed::Kind::interrupted, {}};
  }
  if (!text || count <= 0)
    return {Typed::Kind::end, {}};
  std::string line(text, std::size_t(count));
  while (line.ends_with('\n') || line.ends_with('\r'))
    line.pop_back();
  remember(line);
  return {Typed::Kind::line, std::move(line)};
}

class PlainSource final : public LineSource {
public:
  Typed next(const std::string& /*prompt*/) override {
    std::string line;
    if (!std::getline(std::cin, line))
      return {Typed::Kind::end, {}};
    if (line.ends_with('\r'))
      line.pop_back();
    return {Typed::Kind::line, std::move(line)};
  }
};

} // namespace

std::unique_ptr<LineSource> make_editor(const EditorOptions& options) {
  return std::make_unique<Editor>(options);
}

std::unique_ptr<LineSource> make_plain_source() {
  return std::make_unique<PlainSource>();
}

std::string history_file() {
  namespace fs = std::filesystem;
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  fs::path folder;
  if (state && state[0] == '/') // the specification: others are ignored
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

std::optional<std::string> MessageReader::feed(const std::string& line) {
  const bool mark = line == "\"\"\"";
  if (mark && !begun_) {
    begun_ = quoted_ = true;
    return {};
  }
  const bool goes_on = quoted_ ? !mark : line.ends_with('\\');
  const std::string own = goes_on && !quoted_ ? line.substr(0, line.size() - 1) : line;
  if (!(quoted_ && mark))
    text_ += (has_lines_ ? "\n" : "") + own;
  has_lines_ = begun_ = true;
  if (goes_on)
    return {};
  std::string whole = std::move(text_);
  forget();
  return whole;
}

void MessageReader::forget() {
  text_.clear();
  begun_ = quoted_ = has_lines_ = false;
}

} // namespace paceline::apps
