// Training logs as JSON lines: the program's own form (assets/python/README.md), and unchanged logs of other programs,
// whose names the table of names has (tag_map.h).
//
// One object per line. A line without a step before the first one describes the run; every other line is a step or a
// part of one. The routers of a step have one of three forms: a line for each layer, with tokens_per_expert [E] and
// keys of RouterFrame; routers [{layer, ...}, ...], as `--jsonl` writes them (jsonl.h); or lists of all layers,
// tokens_per_expert [L][E], whose MoE layers are the last L of `layers`. Figures that the counts give are computed.
//
// Further lines of a step are joined to it; a repeated step is a restart (restart_rule.h). A line that cannot be read
// is skipped and counted with its number and the reason; if only its loads cannot be read, its figures are.
#pragma once

#include <string>
#include <string_view>

#include "core/logs/lines/log_reader.h"

namespace moescope {

// Splits chunks of a file into lines. Lines longer than kLongestLine are counted as bad.
class LineSplitter {
 public:
  static constexpr std::size_t kLongestLine = std::size_t{64} << 20;
  void add(std::string_view chunk, LogReader& reader);
  void finish(LogReader& reader);  // passes the last line, which has no newline, to `reader`
  // Passes the last line to `reader`, although it may go on. If it does, the whole line is passed again.
  void read_part(LogReader& reader);
  bool holds_part() const { return !part_.empty() || too_long_; }
  bool holds_unread_part() const { return holds_part() && !part_is_read_; }
  const std::string& part() const { return part_; }

 private:
  void add_part(std::string_view piece);
  std::string part_;
  bool too_long_ = false, part_is_read_ = false;
};

// Throws std::runtime_error if the file cannot be read, has no step (then with the error of the first bad line), or is
// refused (LogReader::finish()).
Imported import_jsonl(const std::string& path, const ImportOptions& options = {});

}  // namespace moescope
