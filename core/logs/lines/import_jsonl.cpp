#include "core/logs/lines/import_jsonl.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/files/input_file.h"
#include "core/files/text/text_encoding.h"

namespace moescope {

namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 20;

}  // namespace

void LineSplitter::add(std::string_view chunk, LogReader& reader) {
  for (;;) {
    const std::size_t end = chunk.find('\n');
    const std::string_view piece = chunk.substr(0, end);
    const bool whole = end != std::string_view::npos && !holds_part() && piece.size() <= kLongestLine;
    if (whole)
      reader.read_line(piece);
    else
      add_part(piece);
    if (end == std::string_view::npos) return;
    if (!whole) finish(reader);
    chunk.remove_prefix(end + 1);
  }
}

void LineSplitter::add_part(std::string_view piece) {
  part_is_read_ = part_is_read_ && piece.find_first_not_of(" \t\r") == std::string_view::npos;
  too_long_ = too_long_ || part_.size() + piece.size() > kLongestLine;
  if (too_long_)
    part_ = {};
  else
    part_ += piece;
}

void LineSplitter::finish(LogReader& reader) {
  if (too_long_)
    reader.refuse_line(fmt::format("longer than {} MB", kLongestLine >> 20));
  else if (!part_is_read_)
    reader.read_line(part_);
  part_.clear();
  too_long_ = part_is_read_ = false;
}

void LineSplitter::read_part(LogReader& reader) {
  reader.read_line(part_);
  part_is_read_ = true;
}

Imported import_jsonl(const std::string& path, const ImportOptions& options) {
  InputFile file(path);
  const double size = file.size();
  LogReader reader(path, options);
  LineSplitter lines;
  std::string chunk(kReadBytes, '\0');
  double read = 0;
  while (const std::size_t read_bytes = file.read(chunk.data(), chunk.size())) {
    const std::string problem = read == 0 ? encoding_problem({chunk.data(), read_bytes}) : std::string();
    if (!problem.empty()) refuse(path, problem);
    lines.add(std::string_view(chunk).substr(0, read_bytes), reader);
    read += read_bytes;
    if (options.progress && !options.progress(std::min(1.0, read / std::max(1.0, size)))) return {};
  }
  if (lines.holds_part()) lines.finish(reader);
  return reader.finish();
}

}  // namespace moescope
