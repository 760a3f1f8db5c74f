#include "apps/server/process_metrics.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <sstream>
#include <sys/resource.h>
#include <unistd.h>

namespace paceline::apps::serve {
namespace {

std::string family(const char* name, const char* type, const char* help, double value) {
  return fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n{0} {3}\n", name, help, type, value);
}

/// Fields of proc(5)'s stat that stand behind the name, which may hold any character.
struct Stat {
  double cpu_seconds = 0;
  double started = 0; ///< Seconds since the machine started.
  double virtual_bytes = 0;
  double resident_bytes = 0;
};

bool read(Stat& stat) {
  std::ifstream file("/proc/self/stat");
  const std::string line(std::istreambuf_iterator<char>(file), {});
  std::istringstream rest(line.substr(std::min(line.rfind(')') + 2, line.size())));
  std::string skipped;
  for (int field = 3; field < 14; ++field)
    rest >> skipped;
  double user = 0;
  double system = 0;
  rest >> user >> system;
  for (int field = 16; field < 22; ++field)
    rest >> skipped;
  double pages = 0;
  rest >> stat.started >> stat.virtual_bytes >> pages;
  const auto ticks = double(sysconf(_SC_CLK_TCK));
  stat.cpu_seconds = (user + system) / ticks;
  stat.started /= ticks;
  stat.resident_bytes = pages * double(sysconf(_SC_PAGESIZE));
  return bool(rest);
}

/// Returns when the machine started, in seconds since 1970.
double boot_time() {
  std::ifstream file("/proc/stat");
  for (std::string word; file >> word;)
    if (double seconds = 0; word == "btime" && file >> seconds)
      return seconds;
  return 0;
}

} // namespace

std::string process_text() {
  std::string text;
  if (Stat stat; read(stat))
    text +=
        family("process_cpu_seconds_total", "counter", "Processor time, user and system.",
               stat.cpu_seconds) +
        family("process_virtual_memory_bytes", "gauge", "Virtual memory.", stat.virtual_bytes) +
        family("process_resident_memory_bytes", "gauge", "Resident memory.", stat.resident_bytes) +
        family("process_start_time_seconds", "gauge", "When it started, since 1970.",
               boot_time() + stat.started);
  std::error_code failed;
  const std::filesystem::directory_iterator files("/proc/self/fd", failed);
  if (!failed)
    text += family("process_open_fds", "gauge", "Open files.",
                   double(std::distance(begin(files), end(files))));
  if (rlimit most{}; getrlimit(RLIMIT_NOFILE, &most) == 0)
    text +=
        family("process_max_fds", "gauge", "Files that it may have open.", double(most.rlim_cur));
  return text;
}

} // namespace paceline::apps::serve
