#include "apps/terminal/chat/editor.hpp"

#include "apps/console/screen_text.hpp"
#include "apps/console/terminal.hpp"
#include "apps/terminal/chat/completion.hpp"
#include "apps/terminal/chat/history.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cwchar>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <histedit.h>
#include <langinfo.h>
#include <poll.h>
#include <string_view>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

namespace paceline::apps {
namespace {

// A terminal that marks pasted text puts these codes around it.
constexpr const char* brackets_on = "\x1b[?2004h";
constexpr const char* brackets_off = "\x1b[?2004l";
constexpr std::string_view paste_end = "\x1b[201~";
constexpr const char* erase_below = "\x1b[J";

/// Event file that becomes readable after the window changed its size, or the shell had the
/// terminal: whichever thread the system lets handle the signal, the editor wakes up.
int signalled = -1;
volatile std::sig_atomic_t continued = 0; ///< Set when `fg` continued the program.

void handle(int signal) {
  const int error = errno;
  if (signal == SIGCONT)
    continued = 1;
  eventfd_write(signalled, 1);
  errno = error;
}

void handle_signals() {
  signalled = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  struct sigaction action {};
  action.sa_handler = handle;
  sigaction(SIGWINCH, &action, nullptr);
  sigaction(SIGCONT, &action, nullptr);
}

/// Returns the codes that erase what was typed: from the cursor, which is behind `text`, up to the
/// text's beginning. columns: the terminal's width now, into which it has put its lines.
std::string to_beginning(std::string_view text, int columns) {
  int rows = 0;
  for (bool more = true; more;) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    more = end < text.size();
    rows += display_width(text.substr(0, end)) / std::max(columns, 1) + (more ? 1 : 0);
    text.remove_prefix(more ? end + 1 : end);
  }
  return (rows > 0 ? fmt::format("\r\x1b[{}A", rows) : std::string("\r")) + erase_below;
}

/// Makes characters those of UTF-8, whatever the user's language.
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
  static unsigned char paste(EditLine* edit, int key);
  int read_character(wchar_t* out);
  int read_byte(char* out);
  bool await_input();
  void redraw();
  void bracket(const char* code) const;

  EditLine* edit_;
  ChatHistory history_;
  EditorOptions options_;
  std::string prompt_;
  bool interrupted_ = false;
  bool brackets_ = moves_cursor(true); ///< Whether the terminal tells pastes from typing.
};

Editor::Editor(EditorOptions options) : history_(options.history), options_(std::move(options)) {
  use_utf8();
  handle_signals();
  edit_ = el_init("paceline", stdin, stdout, stderr);
  el_set(edit_, EL_CLIENTDATA, this);
  el_set(edit_, EL_PROMPT, prompt_of);
  el_set(edit_, EL_EDITOR, "emacs");
  el_set(edit_, EL_HIST, history, history_.lines());
  el_set(edit_, EL_GETCFN, static_cast<int (*)(EditLine*, wchar_t*)>(read_character));
  el_set(edit_, EL_ADDFN, "paceline-complete", "Completes commands, and what they take", complete);
  el_set(edit_, EL_BIND, "^I", "paceline-complete", nullptr);
  el_set(edit_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  el_source(edit_, nullptr); // This reads the user's own keys.
  el_set(edit_, EL_ADDFN, "paceline-paste", "Takes what is pasted", paste);
  el_set(edit_, EL_BIND, "\\e[200~", "paceline-paste", nullptr);
}

Editor::~Editor() {
  el_end(edit_);
}

Editor& Editor::of(EditLine* edit) {
  void* self = nullptr;
  el_get(edit, EL_CLIENTDATA, &self);
  return *static_cast<Editor*>(self);
}

void Editor::bracket(const char* code) const {
  if (brackets_)
    std::fputs(code, stdout);
  std::fflush(stdout);
}

/// Writes the line again, after the window changed its size, or after the shell had the terminal
/// and the old line has scrolled away. After a change of size the line stands where the terminal
/// has moved it, and is erased first: libedit would begin wherever the cursor is.
void Editor::redraw() {
  if (std::exchange(continued, 0) != 0) {
    el_set(edit_, EL_PREP_TERM, 0);
    el_set(edit_, EL_PREP_TERM, 1);
    bracket(brackets_on);
  } else if (moves_cursor(true)) {
    const LineInfo* line = el_line(edit_);
    const std::string before = prompt_ + std::string(line->buffer, line->cursor);
    std::fputs(to_beginning(before, screen_size().columns).c_str(), stdout);
  }
  el_resize(edit_);
  el_set(edit_, EL_REFRESH);
}

/// Waits for a byte. False: interrupted.
bool Editor::await_input() {
  std::array files{pollfd{STDIN_FILENO, POLLIN, 0}, pollfd{options_.wake, POLLIN, 0},
                   pollfd{signalled, POLLIN, 0}};
  for (;;) {
    const int ready = poll(files.data(), files.size(), -1);
    if (eventfd_t count = 0; eventfd_read(signalled, &count) == 0)
      redraw();
    if (ready > 0 && (files[0].revents | files[1].revents) != 0)
      return (files[1].revents & POLLIN) == 0;
  }
}

int Editor::read_character(EditLine* edit, wchar_t* out) {
  return of(edit).read_character(out);
}

/// Reads a byte. Returns 1; 0 at the input's end; -1 when interrupted.
int Editor::read_byte(char* out) {
  for (;;) {
    if (!await_input()) {
      interrupted_ = true;
      errno = EINTR;
      return -1;
    }
    const ssize_t count = ::read(STDIN_FILENO, out, 1);
    if (count >= 0 || errno != EINTR)
      return int(count);
  }
}

int Editor::read_character(wchar_t* out) {
  std::mbstate_t state{};
  for (;;) {
    char byte = 0;
    if (const int count = read_byte(&byte); count <= 0)
      return count;
    const std::size_t size = std::mbrtowc(out, &byte, 1, &state);
    if (size == std::size_t(-1))
      state = {}; // Bytes that are not UTF-8 are left out.
    else if (size != std::size_t(-2))
      return 1;
  }
}

unsigned char Editor::paste(EditLine* edit, int /*key*/) {
  std::string text;
  for (char byte = 0; !text.ends_with(paste_end); text += byte)
    if (of(edit).read_byte(&byte) <= 0)
      return CC_EOF;
  text.resize(text.size() - paste_end.size());
  text = pasted_text(text);
  return el_insertstr(edit, text.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
}

unsigned char Editor::complete(EditLine* edit, int /*key*/) {
  const LineInfo* line = el_line(edit);
  const ChatCompletion found =
      complete_chat_line({line->buffer, std::size_t(line->cursor - line->buffer)});
  if (!found.rest.empty())
    return el_insertstr(edit, found.rest.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
  if (found.words.size() < 2)
    return CC_ERROR;
  const std::string list =
      in_lines(fmt::format("{}", fmt::join(found.words, "  ")), screen_size().columns);
  std::fputs(("\n" + list + "\n").c_str(), stdout);
  return CC_REDISPLAY;
}

Typed Editor::next(const std::string& prompt) {
  prompt_ = prompt;
  interrupted_ = false;
  eventfd_t before = 0;
  (void)eventfd_read(signalled, &before); // This clears events that came during an answer.
  continued = 0;
  el_resize(edit_);
  bracket(brackets_on);
  int count = 0;
  const char* text = el_gets(edit_, &count);
  bracket(brackets_off);
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
  history_.remember(line);
  const bool several = line.find('\n') != line.npos;
  return {several ? Typed::Kind::pasted : Typed::Kind::line, std::move(line)};
}

} // namespace

std::unique_ptr<LineSource> make_editor(const EditorOptions& options) {
  return std::make_unique<Editor>(options);
}

} // namespace paceline::apps
