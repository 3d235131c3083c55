#include "core/logs/lines/log_lines.h"

#include <string>

#include "core/io/input_file.h"
#include "core/io/trimmed.h"
#include "core/io/unreadable.h"

namespace moescope {

namespace {

constexpr std::uint64_t kBytesBetweenReports = 1 << 18;

void take_line(std::string_view line, std::int64_t number, const TakeLine& take, BadLines& bad) {
  if (line.empty()) return;
  try {
    take(line);
  } catch (const Unreadable& unreadable) {
    bad.add(number, unreadable.what());
  }
}

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
        if (!options.progress(static_cast<double>(before) / static_cast<double>(all))) return false;
      }
      if (line.size() > longest)
        imported.bad.add(imported.lines, "longer than " + std::to_string(longest) + " bytes");
      else
        take_line(line, imported.lines, take, imported.bad);
    }
  }
  return true;
}

void take_lines(std::string_view bytes, const TakeLine& take, BadLines& bad) {
  for (std::int64_t number = 1; !bytes.empty(); ++number) take_line(take_until(bytes, '\n'), number, take, bad);
}

}  // namespace moescope
