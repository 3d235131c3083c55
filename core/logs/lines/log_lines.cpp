#include "core/logs/lines/log_lines.h"

#include <fmt/core.h>

#include <string>

#include "core/files/input_file.h"

namespace moescope {

namespace {

constexpr std::uint64_t kBytesBetweenReports = 1 << 18;

}  // namespace

bool take_lines(const std::vector<std::filesystem::path>& files, std::size_t longest, const TakeLine& take,
                const ImportOptions& options, Imported& imported) {
  std::uint64_t all = 1, before = 0, reported = 0;
  for (const auto& file : files) all += std::filesystem::file_size(file);
  for (const auto& name : files) {
    InputFile file(name.string());
    for (std::string line; file.read_line(line, longest);) {
      if (options.growing && !file.line_had_end()) break;
      ++imported.lines;
      before += line.size() + 1;
      if (options.progress && before - reported >= kBytesBetweenReports) {
        reported = before;
        if (!options.progress(before / static_cast<double>(all))) return false;
      }
      if (line.empty()) continue;
      try {
        if (line.size() > longest) throw Unreadable(fmt::format("longer than {} bytes", longest));
        take(line);
      } catch (const Unreadable& unreadable) {
        imported.bad.add(imported.lines, unreadable.what());
      }
    }
  }
  return true;
}

}  // namespace moescope
