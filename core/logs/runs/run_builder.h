// Builds a run from the records of its log (log_record.h), whatever the form of the file.
//
// A TagMap gives the meanings of names. If several names of a run have one meaning, the name whose rule is first in the
// map is shown. Values of a step are joined, wherever they stand; restart_rule.h describes steps that are logged again.
// The loads of a layer can be used only if all its experts have one. Loads of ranks and microbatches are added, unless
// all ranks have the same ones.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/logs/import.h"
#include "core/logs/restart_rule.h"
#include "core/logs/runs/log_record.h"
#include "core/logs/tag_map.h"

namespace moescope {

// The other values of the record were taken.
struct UnreadablePart : Unreadable {
  using Unreadable::Unreadable;
};

inline bool is_in_part(const Unreadable& reason) {
  return dynamic_cast<const UnreadablePart*>(&reason) != nullptr;
}

// What the runs of a log have in common.
struct LogContext {
  std::string source;  // the file, for messages
  ImportOptions options;
  TagMap tags;
  // True: a value may belong to any earlier step, so that the steps are kept until all values are read. False: a step
  // is shown when it is complete.
  bool is_collected = false;
  AccountBook book;
  BadLines bad;
};

// What a log states about a run before its first step.
struct StatedRun {
  RunInfo info;
  float aux_coeff = kNoValue;
  int dense_layers = 0;  // before the MoE layers
  std::string settings;  // a JSON object; empty: there are none
};

// Places of one kind of gap in the loads of a run, of which the first is told.
struct Gaps {
  std::int64_t count = 0;
  std::string first;
  void add(std::int64_t step, int layer, const std::string& reason);
  std::string text() const;  // "step 7, layer 1: no row of expert 1 (and 2 more such places)"
};
std::string place_text(std::int64_t step, int layer);  // "step 7, layer 1"

class RunBuilder {
 public:
  RunBuilder(LogContext& log, const TagMap& tags, std::string name);

  const std::string& name() const { return name_; }  // as in the log; empty: the log has one run without a name
  std::string shown_name() const;
  RunInfo info() const;  // as far as it is known
  StatedRun stated;
  bool is_stated = false;
  std::optional<bool> is_read;  // decided at its first step
  int number = 0;               // of the run in its log
  int shown_number = 0;         // of the run among those that are opened

  // Takes the values of a record, and empties it. Throws Unreadable if a value cannot be read: UnreadablePart if others
  // could be. Throws std::runtime_error if there are more values than can be kept.
  void take(LogRecord& record);
  void count(const LogRecord& record);  // counts values of which nothing is shown, for the account
  void go_back_to(std::int64_t step);   // to be called if the log says that the training goes on from `step`
  void note(std::string text, std::int64_t step = -1);  // a remark, which becomes a marker of the run; -1: newest step
  void add_event(std::string text, std::int64_t step);  // a marker of the run
  // A checkpoint that the trainer saved; `step`: if the log states it, else that of the newest step.
  void add_checkpoint(const std::string& name, std::optional<std::int64_t> step);
  // Kept values may take kKeptBytes plus kKeptOfRead times the bytes that were read, so that a small file that claims
  // large tensors cannot fill the memory. If the steps are kept until all values are read, values that are replaced
  // later count as well, so that reading takes a limited time.
  void has_read(std::uint64_t bytes) { read_bytes_ += bytes; }
  bool is_known(std::string_view name) { return find(name, false).is_shown; }  // true if its values are shown
  // The meaning of a name that record `place` has; without a rule: not known.
  const TagMatch& match_of(std::string_view name, std::int64_t place) {
    place_ = place;
    return find(name, false).match;
  }
  bool has_steps() const { return imported_ || !open_.empty(); }

  // Adds the steps that are not shown yet, even if further values of them may follow.
  void show_steps();
  void finish();  // show_steps(), then the remarks on the whole run; to be called once, after its last record
  const ImportedRun* imported() const { return imported_.get(); }  // nullptr: no step is shown
  std::int64_t steps() const { return imported_ ? imported_->steps() : 0; }
  std::vector<std::string> remarks() const;
  std::string refusal() const;                   // why the steps cannot be shown; empty: they can
  std::string question_of_ranks() const;         // whether each rank has other experts; empty: that is certain
  std::string question_of_first_expert() const;  // whether the experts are numbered from 1; empty: that is certain
  std::string question_of_rows() const;          // whether experts without a row have tokens; empty: none is asked
  std::string question_of_totals() const;        // whether the loads are totals since the start; empty: they are not
  std::string question_of_names() const;         // what loads of a layer under two names are; empty: they are the same
  std::string question_of_repeats() const;  // what lines of one step with other values are; empty: few steps have any
  std::string_view loads_of_ranks() const { return loads_of_ranks_; }  // "; their loads are added"; empty: of one rank
  bool has_values() const { return has_values_; }
  bool has_ranks_in_turn() const { return has_ranks_in_turn_; }  // whose loads were not added
  double first_epoch() const { return first_epoch_; }
  double last_epoch() const { return epoch_; }

 private:
  struct Name {
    std::string name;
    TagMatch match;  // without a rule if the meaning is not known
    AccountBook::Name counts;
    bool has_value = false, is_shown = true, is_kept = true;
    bool is_part = false, is_rank = false;  // its value is the number of a part of a step
    bool is_perplexity = false;
  };
  // Values of one layer that stand for one expert each; NaN: none. Shares stay until the step has no counts.
  struct Experts {
    std::vector<double> counts, shares, biases;
    bool leaves_out_zeros = false;
  };
  struct RankLoads {
    int copies = 0;           // ranks whose loads are those that are kept; -1: others were added
    std::int64_t tokens = 0;  // of the first rank
  };
  struct Step {
    Step() { frame.aux_loss = frame.z_loss = kNoValue; }
    TelemetryFrame frame;
    std::map<int, Experts> experts;          // by layer
    std::map<int, RankLoads> ranks;          // by layer
    std::int64_t place = 0;                  // of its first record
    bool is_part = false;                    // further records of it may follow: it is given by layer, expert or rank
    bool has_sums = false;                   // its losses are the sums over the layers
    std::array<int, 2> loss_parts = {1, 1};  // ranks or microbatches whose means its losses are
    bool is_late = false, is_added = false;  // joins a step that is shown; its loads are added to those
  };

  Name& find(std::string_view name, bool is_own, const char* means = nullptr);
  void count(const Name& name, const NamedValue& value, std::int64_t step);
  std::int64_t step_of(const LogRecord& record);
  int find_parts(const LogRecord& record);
  void find_base(const LogRecord& record, double perplexity);
  void watch_totals(std::vector<RouterFrame>& routers);
  void find_settings(const LogRecord& record);
  void drop_no_values(LogRecord& record);
  std::int64_t step_of_run(const LogRecord& record, std::int64_t step);
  void watch_layers(const LogRecord& record, std::int64_t step);
  void go_back(const LogRecord& record, int part, std::int64_t step);
  void add_marker(Marker marker);  // kept until the run is opened
  bool is_further_part(int part, int layer, std::int64_t step);
  bool differ_from_others(const Name& name, int layer, std::span<const std::uint32_t> counts, std::int64_t step) const;
  void drop(const Restart& restart);
  bool choose(Name& name, bool is_validation = false);
  void forget(const TagMatch& match);
  bool add(Name& name, const NamedValue& value, const LogRecord& record, std::int64_t step);
  bool add_figure(Name& name, const NamedValue& value, const LogRecord& record, int layer, std::int64_t step);
  void add_tokens(const TagRule& rule, double tokens, std::int64_t step);
  bool add_experts(Name& name, const NamedValue& value, int layer, int expert, std::int64_t step);
  bool add_list(Name& name, const NamedValue& value, int layer, std::int64_t step);
  std::size_t ranks_of_list(std::size_t experts) const;
  void set_counts(Step& step, int layer, std::span<const std::uint32_t> counts);
  void set_list(const TagRule& rule, int layer, std::span<const double> values, Step& step);
  Step& step_at(std::int64_t step);
  static RouterFrame& router_at(std::vector<RouterFrame>& routers, int layer);
  void find_listed_layers(const LogRecord& record);
  std::vector<int> layers_of(std::size_t rows, const std::string& column) const;
  void check_layer(int layer) const;
  void check_experts(std::size_t experts, const std::string& column);
  void keep(std::size_t bytes);
  RunInfo info_of_steps() const;
  bool can_open() const;
  int stated_experts() const { return std::max(stated.info.n_experts, log_->options.routed.experts); }
  void open();
  std::map<int, int> layers_of_model(const RunInfo& info);
  TelemetryFrame frame_of(std::int64_t number, Step step);
  void find_first_expert();
  bool show_experts(std::int64_t step, Experts& experts, RouterFrame& router);
  void tell_incomplete(std::int64_t step, int layer, std::int64_t place);

  LogContext* log_;
  const TagMap* tags_;
  std::string name_;
  NameMap<Name> names_;
  std::deque<Name> overflow_;                                 // names of the record beyond those that are kept
  std::vector<Name*> value_names_;                            // names of the values of the record
  const Name* rank_ = nullptr;                                // of them, that of the rank; nullptr: of no rank
  std::size_t rank_number_ = 0;                               // value of this name
  std::vector<int> listed_layers_;                            // that the record lists, in ascending order; empty: none
  std::map<std::tuple<std::string, int, int>, Name*> shown_;  // by column, layer and expert
  // Names of the step that differed from that which gives it, by place in the table; the numbers of the last record
  // that has both.
  struct OtherStep {
    std::string name;
    std::int64_t number = 0, step = 0;
  };
  std::map<int, OtherStep> other_steps_;
  std::map<std::int64_t, Step> open_;  // steps that are not shown yet
  std::unique_ptr<ImportedRun> imported_;
  std::map<int, int> model_layers_;  // layer of the model by layer of the log, if they differ
  RestartRule restarts_;
  std::set<std::pair<int, int>> parts_;                      // layer and rank of the records of the step parts_step_
  std::ptrdiff_t parts_of_layer_ = 0, differing_ranks_ = 0;  // differing: ranks of a layer whose sums of loads differ
  std::int64_t place_ = 0, newest_ = -1, parts_step_ = -1, first_step_ = -1;
  std::size_t to_new_steps_ = 0, logged_ = 0, dropped_ = 0,
              restarted_ = 0;  // restarts to a step that was not logged before; steps
  double first_epoch_ = -1, epoch_ = -1;
  std::int64_t first_distance_ = 0;              // between the first two steps
  std::map<double, std::int64_t> steps_before_;  // by epoch, if steps are counted within it
  // Records of one step with the same loads, and whole numbers of unknown names in them, of which one may be the layer.
  std::int64_t loads_step_ = -1;
  std::map<std::string, double> numbers_of_step_;
  std::string layer_like_;
  std::size_t layer_like_again_ = 0;
  std::string other_loads_;  // name of loads of a layer that has others under another name
  std::string_view loads_of_ranks_;
  bool has_values_ = false, is_added_ = false, has_ranks_in_turn_ = false;
  bool last_has_both_ = false;  // the last row of a table has both losses
  int rows_with_both_ = 0;      // at most 2: of these in succession
  bool layers_as_text_ = false, layers_as_numbers_ = false;
  std::optional<std::pair<std::int64_t, double>> first_tokens_;  // step and tokens so far of the first that has them
  std::int64_t tokens_per_step_ = 0;                             // 0: not known yet
  std::size_t list_size_ = 0;                                    // number of experts in the lists
  double loss_unit_ = 0;  // kNatsOfBit if the losses are in bits, as a perplexity says; 0: not known yet
  int first_expert_ = 0;  // 1: the experts are numbered from 1
  bool has_expert_0_ = false, is_open_ended_ = false;  // open-ended: further experts may have no tokens
  Gaps incomplete_, no_expert_;                        // layers with loads of only some experts; rows that are missing
  bool has_zero_ = false;                              // an expert without tokens has a row
  std::set<std::size_t> rows_of_layers_;              // numbers of experts with a row, of layers where others have none
  std::int64_t layers_with_rows_ = 0;                 // of one such number
  std::map<int, std::vector<std::uint32_t>> totals_;  // newest loads by layer, while none has fallen
  std::int64_t rising_ = 0;                           // loads that were totals of those before
  bool may_be_totals_ = true, are_totals_ = false;    // are: as the name says
  std::vector<std::string> remarks_;
  std::vector<Marker> markers_;  // of the run, until it is opened
  std::int64_t more_notes_ = 0;
  double start_s_ = 0, wall_s_ = 0;
  std::size_t held_bytes_ = 0;  // lines of the rows in open_
  std::uint64_t read_bytes_ = 0, kept_bytes_ = 0;
};

}  // namespace moescope
