#include "apps/console/terminal.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace paceline::apps {
namespace {

// Work that ends within this time needs no progress shown, and an eye needs no more frequent
// updates.
constexpr std::chrono::milliseconds progress_delay{400};
constexpr std::chrono::milliseconds progress_pause{100};

// Returns 0, or the error number.
int write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written >= 0)
      text.remove_prefix(std::size_t(written));
    else if (errno != EINTR)
      return errno;
  }
  return 0;
}

std::string styled(const char* code, std::string_view text, bool terminal) {
  return shows_color(terminal) ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
}

} // namespace

bool Output::write(std::string_view text) {
  if (open())
    error_number_ = write_all(STDOUT_FILENO, text);
  return open();
}

Result<void> Output::finish() const {
  if (error_number_ == 0 || error_number_ == EPIPE)
    return {};
  return fail(ErrorCode::unavailable,
              fmt::format("cannot write to standard output ({})", std::strerror(error_number_)),
              "free some space, or send the output elsewhere");
}

void note(std::string_view text) {
  write_all(STDERR_FILENO, text);
}

bool output_is_terminal() {
  return isatty(STDOUT_FILENO) != 0;
}

bool errors_are_terminal() {
  return isatty(STDERR_FILENO) != 0;
}

bool input_is_terminal() {
  return isatty(STDIN_FILENO) != 0;
}

bool moves_cursor(bool terminal) {
  const char* kind = std::getenv("TERM");
  return terminal && kind != nullptr && *kind != '\0' && std::string_view(kind) != "dumb";
}

bool shows_color(bool terminal) {
  const char* no_color = std::getenv("NO_COLOR");
  return moves_cursor(terminal) && (no_color == nullptr || *no_color == '\0');
}

ScreenSize screen_size() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0)
    return {};
  return {size.ws_col, size.ws_row};
}

HiddenTyping::HiddenTyping() {
  termios mode{};
  if (tcgetattr(STDIN_FILENO, &mode) != 0)
    return;
  before_ = mode;
  mode.c_lflag &= ~tcflag_t(ECHO);
  tcsetattr(STDIN_FILENO, TCSANOW, &mode);
}

HiddenTyping::~HiddenTyping() {
  if (before_)
    tcsetattr(STDIN_FILENO, TCSANOW, &*before_);
}

std::string dim(std::string_view text, bool terminal) {
  return styled("2", text, terminal);
}

std::string bold(std::string_view text, bool terminal) {
  return styled("1", text, terminal);
}

ProgressLine::ProgressLine()
    : next_(std::chrono::steady_clock::now() + progress_delay),
      enabled_(moves_cursor(errors_are_terminal())) {}

ProgressLine::~ProgressLine() {
  clear();
}

void ProgressLine::show(std::string_view what, double done) {
  const auto now = std::chrono::steady_clock::now();
  if (!enabled_ || now < next_)
    return;
  next_ = now + progress_pause;
  shown_ = true;
  note(fmt::format("\r\x1b[K{} {:3.0f} %", what, 100 * done));
}

void ProgressLine::clear() {
  if (shown_)
    note("\r\x1b[K");
  shown_ = false;
}

Patience::Patience(std::string what) {
  if (moves_cursor(errors_are_terminal()))
    thread_ = std::thread([this, what = std::move(what)] { show(what); });
}

void Patience::show(const std::string& what) {
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  bool shown = false;
  for (auto pause = progress_delay; !ended_.wait_for(lock, pause, [this] { return over_; });
       pause = progress_pause) {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    note(fmt::format("\r\x1b[K{} {:.1f} s", what, took.count()));
    shown = true;
  }
  if (shown)
    note("\r\x1b[K");
}

void Patience::over() {
  if (!thread_.joinable())
    return;
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

} // namespace paceline::apps
