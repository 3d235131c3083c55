#include "core/logs/lines/import_jsonl.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/files/input_file.h"
#include "core/files/text/json_line.h"
#include "core/files/text/text_encoding.h"
#include "core/files/text/words.h"

namespace moescope {

namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 20, kLongestBeginning = 4096;
constexpr std::uint64_t kLargestOfRanks = std::uint64_t{256} << 20;
constexpr std::size_t kLongestSettings = std::size_t{1} << 20, kMaxLinesOfObject = 10000, kMaxUnknownLines = 1000;

// True for a printed line that names experts or MoE layers and has several digits.
bool speaks_of_loads(std::string_view line) {
  constexpr std::ptrdiff_t kDigits = 3;
  return has_any(in_lower_case(line), {"expert", "moe", "router", "| layer "}) &&
         std::ranges::count_if(line, is_digit) >= kDigits;
}

bool have_same_shape(const RunInfo& a, const RunInfo& b) {
  const bool same_experts = a.n_experts == b.n_experts || a.n_experts == 0 || b.n_experts == 0;
  return same_experts && (a.moe_layers == b.moe_layers || a.moe_layers.empty() || b.moe_layers.empty());
}

}  // namespace

// Calls `take`, and counts the first object of a line that cannot be read.
template <class Take>
void LogReader::read(Take take) {
  try {
    take();
  } catch (const Unreadable& unreadable) {
    if (std::exchange(last_bad_line_, lines_) != lines_) runs_.count_bad(lines_, unreadable);
  }
}

void LogReader::take(const JsonFields& fields, std::string_view line, bool is_whole_line,
                     std::optional<std::int64_t> step) {
  LogRecord record = json_.record_of(fields, lines_, line.size());
  if (step) record.add("step", static_cast<double>(*step));
  if (!label_.first.empty()) {
    record.add_text(label_.first, label_.second);
    record.values.back().is_own = true;
  }
  if (runs_.has_step(record)) {
    if (form_ == Form::unknown) form_ = Form::json;
    if (!is_closing(record)) runs_.take(record);
    return;
  }
  if (is_whole_line && form_ == Form::unknown && (runs_.has_loss(record) || text_.wraps_text(line)))
    throw Unreadable("no step");  // it is read as a printed line
  if (line.size() > kLongestSettings) throw Unreadable("settings of more than 1 MB");
  if (is_closing(record)) return;
  if (is_whole_line && form_ == Form::unknown) count_first_line(record, line);
  runs_.describe(record, [&] { return JsonRecords::stated_run(fields); });
}

// The first line without a known step has the settings of the run, unless the next one has the same names.
void LogReader::count_first_line(const LogRecord& record, std::string_view line) {
  std::string names;
  for (const NamedValue& value : record.values) (names += value.name) += '\n';
  if (lines_ == 1 || first_line_.empty()) {
    first_line_ = lines_ == 1 ? line : std::string_view();
    names_of_first_ = std::move(names);
    return;
  }
  JsonLines parser;
  if (names == names_of_first_) runs_.count(json_.record_of(parser.parse(first_line_), 1, first_line_.size()));
  first_line_.clear();
}

// Reads a line of printed text, or a line that is not JSON while the form of the log is unknown.
void LogReader::read_text(std::string_view line) {
  const auto found = [&] {
    if (form_ != Form::text) {  // of lines before the first step
      bad_lines() = BadLines();
      last_bad_line_ = 0;
    }
    form_ = Form::text;
  };
  bool is_read = false;
  lines_of_text_ += text_.read(line, [&](LogRecord& record) {
    is_read = true;
    last_step_line_ = line;
    found();
    record.place = lines_;
    read([&] { runs_.take(record); });
  });
  const bool is_kept = unknown_lines_.size() < kMaxUnknownLines && line.size() < kLongestPiece;
  if (form_ == Form::unknown && is_kept && !trimmed(line, kBlank).starts_with('{')) unknown_lines_.emplace_back(line);
  if (form_ == Form::text && !is_read && !text_.waits() && speaks_of_loads(line) && unread_loads_++ == 0)
    first_unread_ = lines_;
  const auto saved = form_ == Form::text ? saved_checkpoint(line) : std::nullopt;
  if (!saved || runs_.runs().empty()) return;
  // Every rank, and the begin and the end of saving, may have a line.
  const std::string checkpoint = saved->name.empty() ? std::to_string(lines_of_text_) : saved->name;
  if (std::exchange(last_checkpoint_, checkpoint) == checkpoint) return;
  // The steps of numbered dicts are not those that the trainer counts.
  runs_.runs().back().add_checkpoint(saved->name, text_.is_numbered() ? std::nullopt : saved->step);
}

// Joins the lines of an indented object, which begins with a line "{" and ends with a line "}". Returns the whole
// object, or a line that is outside such objects; nullopt if the object is not complete yet.
std::optional<std::string_view> LogReader::whole_object(std::string_view read) {
  const std::size_t end = read.find_last_not_of(" \t\r,");
  const std::string_view plain = end == std::string_view::npos ? read : read.substr(0, end + 1);
  if (form_ == Form::text || (object_lines_ == 0 && plain != "{")) return read;
  if (object_lines_ > 0 && !read.starts_with(' ') && !read.starts_with('\t') && !read.starts_with('}')) {
    object_lines_ = 0;
    bad_lines().add(lines_ - 1, "not JSON, or cut off");
    return read;
  }
  if (object_lines_ == 0) object_.clear();
  object_ += read;
  const bool ends = plain == "}";
  if (!ends && ++object_lines_ < kMaxLinesOfObject && object_.size() < kLongestSettings) return std::nullopt;
  object_lines_ = 0;
  if (ends) object_.resize(object_.rfind('}') + 1);
  return object_;
}

void LogReader::read_line(std::string_view line, std::int64_t number) {
  lines_ = number > 0 ? number : lines_ + 1;
  if (lines_ == 1) line = without_byte_order_mark(line);
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
  const auto whole = whole_object(line);
  if (!whole) return;
  const std::int64_t bad_before = bad().count();
  if (form_ != Form::text) read([&] { take(parser_.parse(*whole), *whole, true); });
  const bool is_json = form_ == Form::json || bad().count() == bad_before;
  if (form_ == Form::text || !is_json) read_text(*whole);
}

void LogReader::read_object(const JsonFields& object, std::optional<std::int64_t> step) {
  ++lines_;
  read([&] { take(object, {}, false, step); });
}

void LogReader::refuse_line(std::string reason) {
  bad_lines().add(++lines_, std::move(reason));
}

Imported LogReader::finish() {
  if (text_.waits()) read_text("");
  if (form_ == Form::unknown && lines_ > 1) {
    std::string names;
    for (std::size_t i = 0; i < unknown_lines_.size(); ++i) names += text_.count(unknown_lines_[i], to_int(i) + 1);
    if (!names.empty())
      throw RefusedLog(runs_.context().source,
                       "its printed lines have no step, or no figure, by a name that is known: state them in What was "
                       "read, or name them \"step\", \"loss\" and \"tokens_per_expert\"",
                       account());
  }
  Imported imported = runs_.finish(lines_);
  imported.remarks = remarks();
  imported.account = account();
  return imported;
}

ImportAccount LogReader::account() const {
  ImportAccount account = runs_.account();
  if (account.program.empty() && text_.is_of_trainer()) account.program = "Hugging Face Trainer";
  const std::pair<std::int64_t, std::string> left_out[] = {
      {text_.other_rank_lines(), "of other ranks than the one whose values are read"},
      {text_.part_lines(), "count the micro batches of a step or the batches of an evaluation"},
      {text_.rounded_step_lines(), "replaced by the next, whose step is the same, as steps such as 1.2k are rounded"},
      {unread_loads_,
       "speak of experts or MoE layers in a form that is not read, the first: line " + std::to_string(first_unread_)}};
  for (const auto& [lines, reason] : left_out)
    if (lines > 0) account.left_out.push_back({counted(lines, "line", "lines"), reason});
  return account;
}

bool LogReader::is_whole(std::string_view line) {
  if (line.find('\r') != std::string_view::npos || text_.is_numbered()) return false;
  if (form_ == Form::text) return TextLogReader(runs_).read(line);
  try {
    JsonLines().parse(line);
    return true;
  } catch (const Unreadable&) {
    return false;
  }
}

bool LogReader::goes_on_from(const LogReader& earlier) const {
  return std::ranges::all_of(runs_.runs(), [&](const RunBuilder& run) {
    if (!run.imported()) return true;
    const auto& all_before = earlier.runs_.runs();
    const auto before = std::ranges::find_if(all_before, [&](const RunBuilder& other) {
      return other.imported() && other.number == run.number && other.name() == run.name();
    });
    if (before == all_before.end() || !have_same_shape(run.info(), before->info())) return false;
    if (text_.is_numbered()) return run.first_epoch() >= 0 && run.first_epoch() >= before->last_epoch();
    return run.imported()->history()->steps().first > before->imported()->history()->steps().last;
  });
}

std::vector<std::string> LogReader::remarks() const {
  std::vector<std::string> text_remarks;
  if (form_ == Form::text) {
    text_remarks.push_back(
        fmt::format("read as printed lines: {} of {} have figures of a step", lines_of_text_, lines_));
    if (text_.other_rank_lines() > 0)
      text_remarks.push_back("left out: " + counted(text_.other_rank_lines(), "line", "lines") + " of other ranks");
    if (text_.are_loads_above())
      text_remarks.push_back("its first loads stand above any step: loads belong to the step below them");
    if (text_.is_numbered())
      text_remarks.push_back("its lines have no step: they are numbered 1, 2, ... in their order" +
                             std::string(text_.is_of_trainer() ? " (trainer_state.json has the steps)" : ""));
  }
  return runs_.remarks(text_remarks);
}

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

// Reads a last line without a line end. The number at its end is cut off if the line before has further values or
// digits: "step: 12 loss: 1" below "step: 11 loss: 1.25".
void LogReader::read_last_line(std::string_view line) {
  const std::string &before = last_step_line_, pattern = name_pattern(line), pattern_before = name_pattern(before);
  const bool has_fewer_digits =
      pattern == pattern_before && line.size() - line.rfind('.') < before.size() - before.rfind('.');
  const bool is_cut = form_ == Form::text && line.find_last_of("0123456789.") + 1 == line.size() &&
                      (has_fewer_digits || (pattern != pattern_before && pattern_before.starts_with(pattern)));
  read_line(line.substr(0, is_cut ? line.find_last_not_of("0123456789.") + 1 : line.size()));
  if (is_cut) bad_lines().add(lines_, "its last number is cut off");
}

void LineSplitter::finish(LogReader& reader, bool ends_file) {
  if (too_long_)
    reader.refuse_line(fmt::format("longer than {} MB", kLongestLine >> 20));
  else if (!part_is_read_)
    ends_file ? reader.read_last_line(part_) : reader.read_line(part_);
  part_.clear();
  too_long_ = part_is_read_ = false;
}

void LineSplitter::read_part(LogReader& reader) {
  reader.read_line(part_);
  part_is_read_ = true;
}

namespace {

struct LineOfStep {
  std::int64_t step, number;
  std::string_view line;
};

// Returns the lines in the order of their steps if a rank, or a name of values, has the lines of all steps before the
// next one has any, so that the lines of a step follow each other; else none.
std::vector<LineOfStep> lines_of_ranks(std::string_view text, const std::string& path, const ImportOptions& options) {
  if (text.empty()) return {};
  const TagMap tags = TagMap::for_log(options, path);
  std::vector<LineOfStep> lines;
  JsonLines parser;
  std::map<std::string, std::int64_t> last_steps;  // by rank and name
  std::int64_t step = -1;
  bool is_in_turn = false;
  while (!text.empty()) {
    const std::string_view line = take_until(text, '\n');
    const std::int64_t before = step;
    std::string rank;
    try {
      for (const JsonFields::Field& field : parser.parse(line)) {
        const auto match = tags.find(field.key);
        if (match && match->rule->means == TagMeaning::step_number && field.value.get(step) != simdjson::SUCCESS)
          return {};
        if (is_part_of_step(field.key) || std::ranges::count(kKeysOfNames, field.key) > 0)
          rank += simdjson::minify(field.value);
      }
    } catch (const Unreadable&) {  // its reader says why
    }
    is_in_turn = is_in_turn || step < before;
    const auto [last, is_new] = last_steps.try_emplace(rank, step);
    if (!is_new && step < std::exchange(last->second, step)) return {};  // a restart
    lines.push_back({step, std::ssize(lines) + 1, line});
  }
  if (!is_in_turn) return {};
  std::ranges::stable_sort(lines, {}, &LineOfStep::step);
  return lines;
}

// Returns the whole lines of a log that names ranks, or values in fields; else an empty text.
std::string text_of_ranks(const std::string& path) {
  if (InputFile(path).size() > kLargestOfRanks ||
      !has_any(beginning_of(path, kLongestBeginning), {"rank\"", "\"value\"", "\"metricValue\""}))
    return {};
  return read_file(path, kLargestOfRanks, "log");
}

}  // namespace

bool has_ranks_in_turn(const std::string& path, const ImportOptions& options) {
  return !lines_of_ranks(text_of_ranks(path), path, options).empty();
}

Imported import_jsonl(const std::string& path, const ImportOptions& options) {
  InputFile file(path);
  const double size = file.size();
  LogReader reader(path, options);
  LineSplitter lines;
  std::string chunk(kReadBytes, '\0');
  double read = 0;
  std::string text = text_of_ranks(path);
  if (options.growing) text.resize(text.rfind('\n') + 1);  // the end of the last line may follow
  const std::vector<LineOfStep> in_order = lines_of_ranks(text, path, options);
  for (const LineOfStep& line : in_order) reader.read_line(line.line, line.number);
  if (!in_order.empty()) {
    reader.read_line("", std::ssize(in_order));  // the number of all lines
    return reader.finish();
  }
  while (const std::size_t read_bytes = file.read(chunk.data(), chunk.size())) {
    const std::string problem = read == 0 ? encoding_problem({chunk.data(), read_bytes}) : std::string();
    if (!problem.empty()) refuse(path, problem);
    lines.add(std::string_view(chunk).substr(0, read_bytes), reader);
    read += read_bytes;
    if (options.progress && !options.progress(std::min(1.0, read / std::max(1.0, size)))) return {};
  }
  if (lines.holds_part()) lines.finish(reader, true);
  return reader.finish();
}

}  // namespace moescope
