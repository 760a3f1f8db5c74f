// Runs a target on every file of the folders named: what fuzzing found is kept and tried again by
// the ordinary tests.
#include "tests/fuzz/fuzz.hpp"

#include <sstream>

int main(int count, char** arguments) {
  int inputs = 0;
  for (int i = 1; i < count; ++i)
    for (const auto& entry : std::filesystem::directory_iterator(arguments[i])) {
      std::ostringstream text;
      text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
      paceline::testing::fuzz(text.str());
      ++inputs;
    }
  std::printf("%d inputs\n", inputs);
  return inputs > 0 ? 0 : 1;
}
