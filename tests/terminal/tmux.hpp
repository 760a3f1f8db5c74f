// A real terminal to drive programs in: tmux, without a window.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace paceline::testing {

/// A terminal with one program in it; both go with this object. Tests wait for what the screen
/// shows, never for time to pass.
class Tmux {
public:
  /// Whether there is tmux and a terminal for it; if not, standard error says what is missing.
  static bool available();

  /// command: for the shell. What it ends with is shown as "left STATUS".
  Tmux(const std::string& command, int columns, int rows);
  ~Tmux();
  Tmux(const Tmux&) = delete;
  Tmux& operator=(const Tmux&) = delete;

  /// whole: lines that the terminal wrapped are one. rows: as they are seen. codes: whole lines,
  /// with colors and the like as escape sequences. all: whole lines, and what has scrolled away.
  enum class Shown { whole, rows, codes, all };
  std::string screen(Shown how = Shown::whole) const;
  /// Keys as tmux calls them ("C-c", "Enter", "Up").
  void press(const std::vector<std::string>& keys) const;
  void type(const std::string& text) const;
  /// Sends it as a terminal sends what is pasted, with brackets around it.
  void paste(const std::string& text) const;
  void resize(int columns, int rows) const;
  /// Looks until it holds of the screen, which is given back; the test fails after a minute.
  std::string await(const std::function<bool(const std::string&)>& holds,
                    Shown how = Shown::whole) const;
  std::string await(const std::string& text) const;

private:
  std::string tmux(std::vector<std::string> arguments) const;
  std::string socket_;
};

/// How often `text` occurs.
int count(const std::string& screen, const std::string& text);

} // namespace paceline::testing
