// Encodes files as often as it is told to: one line of standard input, one round, whose seconds it
// prints. tools/reference/tokenizer_speed.py measures with it.
//
//   tokenizer_speed MODEL_FOLDER FILE...
#include "models/checkpoint/folder.hpp"

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace {

std::string read_file(const char* path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

} // namespace

int main(int count, char** arguments) {
  if (count < 3) {
    std::cerr << "usage: tokenizer_speed MODEL_FOLDER FILE...\n";
    return 2;
  }
  const auto tokenizer = paceline::models::FolderSource(arguments[1]).tokenizer();
  if (!tokenizer) {
    std::cerr << "paceline: " << tokenizer.error().text() << '\n';
    return 2;
  }
  std::vector<std::string> texts;
  for (int i = 2; i < count; ++i)
    texts.push_back(read_file(arguments[i]));
  std::string line;
  while (std::getline(std::cin, line)) {
    const auto start = std::chrono::steady_clock::now();
    std::size_t tokens = 0;
    for (const std::string& text : texts)
      tokens += (*tokenizer)->encode(text).size();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::printf("%.9f %zu\n", seconds.count(), tokens);
    std::fflush(stdout);
  }
}
