// Reads printed logs (docs/logs.md): the named numbers of lines with a step, and of lines below them.
// A line is read if it has a step and a number under a name that the table of names has (tag_map.h). The dicts that
// Hugging Face's Trainer prints have no step and are numbered in their order; a smaller epoch means a restart.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/text/json_line.h"
#include "core/logs/lines/json_record.h"
#include "core/logs/lines/printed_pairs.h"
#include "core/logs/tag_map.h"

namespace moescope {

class TextLogReader {
 public:
  using Takers = std::function<void(LogRecord&)>;

  explicit TextLogReader(LogRuns& runs) : runs_(&runs), json_(runs) {}
  // Gives every step, or part of a step, in the line to `take`. Returns false if the line has none.
  bool read(
      std::string_view line, const Takers& take = [](LogRecord&) {});

  // Counts the values of a line in a text of which no step is known, for the account. Returns their names.
  std::string count(std::string_view line, std::int64_t place);

  // True if the line is a JSON object of a container's log that contains a printed line with a step: {"log": "step: 1
  // loss: 2.5"}.
  bool wraps_text(std::string_view line) const;

  bool is_log() const { return knows_program_ || read_steps_ > 1; }  // a name of a program, or two steps were read
  bool is_of_trainer() const { return is_of_trainer_; }              // dicts with an epoch and no step
  std::int64_t other_rank_lines() const { return other_rank_lines_; }
  std::int64_t rounded_step_lines() const { return rounded_step_lines_; }  // lines whose step is printed as that before
  std::int64_t part_lines() const { return part_lines_; }  // that count micro batches or those of an evaluation
  bool are_loads_above() const { return are_loads_above_; }
  bool is_numbered() const { return is_numbered_; }
  bool waits() const { return !list_.empty() || !above_.empty(); }  // the next line may belong to the last one

 private:
  struct DictKeys {
    bool has_step = false, trains = false, validates = false, shows = false;
    double epoch = std::numeric_limits<double>::quiet_NaN();
  };
  DictKeys keys_of(const LogRecord& record);
  const TagRule* add_pair(PrintedPair& pair, LogRecord& record, std::string& expert_prefix);
  bool read_line(std::string_view line, const Takers& take);
  bool read_piece(std::string_view piece, const Takers& take);
  std::optional<std::string> wrapped_text(std::string_view line) const;
  bool read_value_of_step(std::string_view piece, bool is_indented, const Takers& take);
  bool read_step(std::string_view piece, std::string_view rank, const Takers& take);
  bool read_dict(std::string_view piece, std::string_view rank, const Takers& take);
  bool follows(std::int64_t epoch);
  std::int64_t number_in_epoch(std::int64_t epoch, const std::string& loss_name);
  bool has_loads(std::string_view piece);
  bool is_wanted_rank(std::string_view rank, bool has_loss);
  std::int64_t number_of(bool trains, double epoch);

  LogRuns* runs_;
  JsonRecords json_;
  JsonLines parser_;
  struct RankFilter {
    std::optional<std::string> rank;  // that is read
    bool has_loss = false;
  };
  RankFilter marked_, named_;
  std::int64_t read_steps_ = 0, other_rank_lines_ = 0, rounded_step_lines_ = 0, part_lines_ = 0;
  bool knows_program_ = false, is_of_trainer_ = false;
  bool has_steps_ = false;                        // a step that is no epoch was read
  std::int64_t epoch_ = -1, epochs_between_ = 1;  // the last epoch that is a step, and its distance from the one before
  std::vector<double> epochs_;                    // epochs of the numbered dicts and lines
  bool is_numbered_ = false;
  std::int64_t before_numbers_ = 0;  // of the lines
  std::string loss_of_epoch_;        // its name in the last of them
  std::string total_;                // of the last step of the training, "200" of "3/200"
  std::vector<std::string> above_;   // lines with loads whose step follows
  bool are_loads_above_ = false;     // such lines stand above that of their step
  std::string list_;                 // lines of a list that goes on in the next one
  bool is_matrix_ = false;           // the list is one of lists, with a line of numbers for each
  bool is_of_expert_ = false;        // the list ends with a line of an expert
  std::string open_step_;  // step of the last line with one, to which values of the next lines belong; else empty
  bool has_values_below_ = false;  // such a line was read
  bool is_bare_ = false;           // the line of the step has nothing else, so that lines below need no indent
  enum class Below { any, known, loads, validation } below_ = Below::any;  // names that are read in these lines
};

// A line by which a trainer says that it saves a checkpoint:
//   saving checkpoint at iteration     500 to /kept in torch_dist format        Megatron-LM
//   Saving the checkpoint (or staging if async is enabled).                     TorchTitan: that of the newest step
//   Saving model checkpoint to out/checkpoint-500                               transformers
struct SavedCheckpoint {
  std::string name;                  // "iteration 500", "checkpoint-500"; empty: none
  std::optional<std::int64_t> step;  // nullopt: not stated
};
std::optional<SavedCheckpoint> saved_checkpoint(std::string_view line);

// True if a text has lines of a log (TextLogReader::is_log()).
bool holds_printed_steps(std::string_view text, const TagMap& tags = TagMap::built_in());
// True if lines of a text have numbers under the same names, of which one may be the step.
bool repeats_names(std::string_view text);

}  // namespace moescope
