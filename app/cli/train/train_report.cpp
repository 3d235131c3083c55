#include "app/cli/train/train_report.h"

#include <cmath>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "app/cli/printing.h"
#include "app/cli/train/cli_train_stop.h"
#include "core/cluster/ranks/volumes.h"
#include "core/config/config_check.h"
#include "core/config/config_difference.h"
#include "core/config/config_field.h"
#include "core/config/run_config.h"
#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/files/whole_file.h"
#include "core/findings/comparison/comparison.h"
#include "core/findings/comparison/operand_sqnr.h"
#include "core/findings/comparison/verdict_words.h"
#include "core/findings/health.h"
#include "core/model/learner.h"
#include "core/numerics/processor.h"
#include "core/numerics/threads.h"

namespace moescope {

namespace {

std::string table_text(std::span<const Outcome> outcomes) {
  ValueTable table({{.name = "candidate"},
                    {.name = "loss", .format = ".4f"},
                    {.name = "mean loss", .format = ".4f"},
                    {.name = "gap to A", .format = "+.4f"},
                    {.name = "+-", .format = ".4f"},
                    {.name = "verdict"},
                    {.name = "gradient error", .unit = "share", .format = ".2f"},
                    {.name = "flips", .unit = "share", .format = ".2f"},
                    {.name = "by rounding", .unit = "share", .format = ".2f"},
                    {.name = "underflow", .unit = "share", .format = ".2f"},
                    {.name = "lowest SQNR", .unit = "dB", .format = ".1f"},
                    {.name = "mean", .unit = "dB", .format = ".1f"},
                    {.name = "MaxVio", .format = ".3f"},
                    {.name = "tokens/s", .format = ".0f"},
                    {.name = "group"},
                    {.name = "differs in"}});
  for (const Outcome& o : outcomes)
    table.add(o.name, o.figures.final_loss, o.figures.mean_loss, o.conclusion.gap, o.conclusion.half_width,
              verdict_words(o), o.costs.gradient_error, o.figures.flip_rate, o.costs.flips, o.costs.flushed,
              o.sqnr.worst_db, o.sqnr.mean_db, o.figures.max_vio, o.figures.tokens_per_s,
              o.differs.empty() ? "all" : fmt::format("{}", o.group), o.differs);
  const bool quantized = std::ranges::any_of(outcomes, [](const Outcome& o) { return o.sqnr.operands > 0; });
  return to_text(table) + (quantized ? fmt::format("{}\n", kSqnrNote) : "");
}

std::string signed_gap(float gap) {
  return is_missing(gap) ? "-" : fmt::format("{:+.4f}", gap);
}

std::string gap_text(const Conclusion& c) {
  return signed_gap(c.gap) + (is_missing(c.half_width) ? "" : fmt::format(" +-{:.2g}", c.half_width));
}

// Returns how much of the loss gap of `choosing` is due to routing. `replaying` replays run A's routing and otherwise
// has the same settings. Replay often narrows the interval, so that the part of the gap that is due to arithmetic can
// be told from chance even if the whole gap cannot.
std::string routing_share(const PairedRun& replaying, const PairedRun& choosing, const HistoryPtr& a,
                          std::span<const PairedRun> twins, const Judging& judging) {
  const Conclusion with = conclude(a, replaying, twins, judging, Metric::ce_loss),
                   without = conclude(a, choosing, twins, judging, Metric::ce_loss);
  if (is_missing(with.gap) || is_missing(without.gap)) return {};
  std::string text =
      fmt::format("Of the loss gap {} of {}, {} nats/token remain with replay (arithmetic), {} are due to the routing",
                  gap_text(without), choosing.run->info().name, gap_text(with), signed_gap(without.gap - with.gap));
  if (is_missing(without.half_width))
    text += "; how much of this is chance is not known: " + verdict_reasons(without).front();
  else if (std::fabs(without.gap - with.gap) < without.half_width)
    text += ", no more than chance alone can cause";
  return text + '\n';
}

// Returns a sentence on the gap of the training loss if the validation loss decides, else an empty text.
std::string beside_what_decides(const HistoryPtr& a, const PairedRun& run, std::span<const PairedRun> twins,
                                const Judging& judging) {
  if (deciding_loss(*a, *run.run) == Metric::ce_loss) return {};
  const Conclusion training = conclude(a, run, twins, judging, Metric::ce_loss);
  if (is_missing(training.gap)) return {};
  return fmt::format("{}: training loss gap {} nats/token; the validation loss decides, since it is measured\n",
                     run.run->info().name, gap_text(training));
}

// Returns the index of the run that differs from run `i` only in replay; nullopt if there is none.
std::optional<std::size_t> choosing_for_itself(std::span<const RunConfig> configs, std::size_t i) {
  for (std::size_t source_run = 1; source_run < configs.size(); ++source_run) {
    const auto found = difference(configs[source_run], configs[i]);
    if (found.size() == 1 && found.front().setting == &RouterConfig::replay) return source_run;
  }
  return {};
}

// Returns the result of a comparison: a table of the runs and the conclusions. `configs` [run]: the settings of the
// runs. Runs from 1 on are compared with run 0.
std::string comparison_report(std::span<const HistoryPtr> histories, std::span<const RunConfig> configs,
                              std::span<const Outcome> outcomes, double epsilon) {
  const StepRange window = last_common_steps(histories, kOutcomeSteps);
  if (window.empty()) return {};
  const auto paired = [&](std::size_t i) { return PairedRun{histories[i], same_start(configs.front(), configs[i])}; };
  std::vector<PairedRun> twins;
  for (std::size_t i = 1; i < histories.size(); ++i)
    if (is_noise_twin(configs.front(), configs[i])) twins.push_back(paired(i));
  const Judging judging{kRelevantGap, to_int(histories.size() - 1 - twins.size())};

  std::string text = fmt::format("Comparison after {} steps; means over the last {}, loss in nats/token\n{}",
                                 window.last + 1, window.size(), table_text(outcomes));
  for (std::size_t i = 1; i < histories.size(); ++i) {
    const HistoryPtr& other = histories[i];
    const auto first = first_divergence_step(*histories.front(), *other, epsilon);
    const std::string above = to_string(ConfigValue(epsilon));
    text += first
                ? fmt::format("{}: first step with a loss difference above {}: {}\n", other->info().name, above, *first)
                : fmt::format("{}: no loss difference above {}\n", other->info().name, above);
    if (const std::string routing = to_text(routing_overlap(*other, window.last)); !routing.empty())
      text += fmt::format("{}: {}\n", other->info().name, routing);
    if (const auto source_run = choosing_for_itself(configs, i); source_run && configs[i].router.replay)
      text += routing_share(paired(i), paired(*source_run), histories.front(), twins, judging);
    if (is_noise_twin(configs.front(), configs[i])) continue;
    text += verdict_sentence(conclude(histories.front(), paired(i), twins, judging)) + '\n' +
            beside_what_decides(histories.front(), paired(i), twins, judging);
  }
  if (!twins.empty())
    text += fmt::format(
        "Gaps are means of paired losses over the last half of the steps, of the validation loss where it is measured "
        "(telemetry.validation_every), with 95 % intervals by the noise twins of the same start, or else by those of "
        "another seed; {} % of the first run's loss counts as a difference that matters.\n",
        to_string(ConfigValue(100 * kRelevantGap)));
  else
    text += "Add --perturbed-twin or --noise-twin to see how much of a difference is noise.\n";
  return text;
}

constexpr std::size_t kLastSteps = 20;

// Prints "WORD        TEXT"; `word` has at most 11 characters. Prints nothing for an empty text.
void print_line(std::FILE* out, const char* word, const std::string& text) {
  if (!text.empty()) print_to(out, "{:<11} {}\n", word, printable(text));
}

std::FILE* where_to_report(const TrainOptions& o, bool writes) {
  if (!writes) return std::fopen("/dev/null", "w");
  return o.jsonl == "-" ? stderr : stdout;
}

}  // namespace

void LastSteps::add(const TelemetryFrame& frame) {
  losses.push_back(frame.ce_loss);
  if (losses.size() > kLastSteps) losses.pop_front();
  if (frame.routers.empty()) return;
  max_vio = max_vio_window = 0;
  for (const RouterFrame& router : frame.routers) {
    max_vio += router.max_vio / frame.routers.size();
    max_vio_window += router.max_vio_window / frame.routers.size();
  }
}

double LastSteps::mean_loss() const {
  return std::accumulate(losses.begin(), losses.end(), 0.0) / losses.size();
}

void WireTotals::add(const TelemetryFrame& frame, const RunConfig& config) {
  const WireFrame& wire = frame.wire;
  if (wire.ranks == 0 || frame.routers.empty()) return;
  ranks = wire.ranks;
  const std::size_t size = ranks;
  for (std::size_t i = 0; i < size * size; ++i) {
    if (i / size == i % size) continue;  // copies that stay on their rank are not sent
    sent += wire.sent_RR[i];
  }
  const std::string payload = to_string(Setting(&PrecisionConfig::payload).field().get(config));
  const RowBytes row = wire_row_bytes(payload, config.model.row_dim());
  for (const RouterFrame& router : frame.routers)
    for (const std::uint64_t bytes : wire_bytes(router.volume, wire.over_nodes, row)) counted += bytes;
  for (const float rank_ms : wire.all_to_all_ms_R) ms += static_cast<double>(rank_ms) / ranks;
  ++steps;
}

std::string WireTotals::text() const {
  if (steps == 0) return {};
  return fmt::format("{:.0f} bytes a step between {} ranks measured, {:.0f} by the routing; {:.1f} ms a step",
                     sent / steps, ranks, counted / steps, ms / steps);
}

TrainReport::TrainReport(const TrainOptions& options, Engine& engine, TrainJob job)
    : o_(options),
      engine_(engine),
      job_(std::move(job)),
      first_(engine.next_step()),
      text_(where_to_report(options, writes())),
      progress_(text_, first_, job_.end, job_.group, job_.later) {
  if (writes() && o_.overwrite && !continues_checkpoints(o_)) job_.outputs->checkpoints.remove_earlier();
  for (const auto& history : engine_.histories()) job_.outputs->lines.write(history->info());
  introduce();
}

void TrainReport::introduce() {
  if (!job_.group.empty()) print_to(text_, "\n{}\n", job_.group);
  std::string on = num_threads() == 1 ? "1 thread" : fmt::format("{} threads", num_threads());
  if (job_.ranks) on += fmt::format(" on each of {} ranks", job_.ranks->size());
  print_to(text_, "{}: {:.2f} million parameters, {}, {}{}\n", config().name, parameter_count(config()) * 1e-6,
           printable(engine_.data().summary()), on,
           first_ > 0 ? (fmt::format(", resumed after step {}", first_ - 1)) : "");
  print_line(text_, "kernels", job_.kernels);
  for (std::size_t i = 1; i < engine_.runs().size(); ++i)
    print_to(text_, "in lock-step with {}\n", engine_.runs()[i].trainer.config().name);
  std::fflush(text_);
}

bool TrainReport::wants_step() {
  if (engine_.next_step() >= job_.end) return false;
  int stopped = stop_signal() != 0 || engine_.trouble() || !failure_.empty() ? 1 : 0;
  sum_over_ranks(job_.ranks, std::span(&stopped, 1));
  return stopped == 0;
}

void TrainReport::frame(const TelemetryFrame& frame) {
  if (frame.run == 0) {
    wire_.add(frame, config());
    last_.add(frame);
    progress_.show(frame);
    engine_.sink().flush();  // so that a kill loses at most the present step
  }
  job_.outputs->lines.write(frame);
}

void TrainReport::after_step(Engine&) {
  look_after_outputs();
  const std::int64_t next = engine_.next_step();
  if (o_.checkpoint_interval > 0 && next % o_.checkpoint_interval == 0 && next < job_.end && !engine_.trouble())
    save_checkpoint(false);
}

void TrainReport::ended(Engine&) {
  progress_.finish();
  if (engine_.trouble() && engine_.trouble()->within_step && failure_.empty()) failure_ = engine_.trouble()->reason;
  if (!o_.checkpoint.empty() && !engine_.trouble()) save_checkpoint(true);
  engine_.sink().flush();
  look_after_outputs();
  summarize();
  if (!failure_.empty()) print_to(stderr, "moescope-cli: error: {}\n", printable_lines(failure_));
  const bool failed = engine_.trouble() || unwritten_ || !failure_.empty();
  *job_.status = stop_signal() != 0 ? 128 + stop_signal() : 0;
  if (failed) *job_.status = 1;
}

void TrainReport::save_checkpoint(bool last) {
  const std::string problem = engine_.save_checkpoint(o_.checkpoint);
  if (!writes()) return;
  const bool failed_before = !job_.outputs->checkpoints.error().empty();
  job_.outputs->checkpoints.note(engine_.next_step(), problem);
  if (problem.empty()) return;
  unwritten_ = true;
  if (!failed_before) say(problem + (last ? "" : "; training goes on and will try the next one"));
}

// Reports failed outputs right after a step, since hours of training may be left.
void TrainReport::look_after_outputs() {
  if (!writes()) return;
  const auto say_once = [&](const std::string& error, bool& is_reported) {
    if (error.empty() || is_reported) return;
    is_reported = unwritten_ = true;
    say(error + "; training goes on without it");
  };
  say_once(engine_.sink().error(), recording_said_);
  const JsonLinesOutput& lines = job_.outputs->lines;
  if (lines.reader_is_gone())
    failure_ = lines.error();
  else
    say_once(lines.error(), lines_said_);
  if (const std::string removed = job_.outputs->checkpoints.removed(); !removed.empty()) say(removed);
}

void TrainReport::say(const std::string& warning) {
  progress_.finish();
  std::fflush(text_);
  print_to(stderr, "moescope-cli: warning: {}\n", printable_lines(warning));
}

void TrainReport::summarize() {
  const std::int64_t steps = engine_.next_step();
  if (stop_signal() != 0) print_to(text_, "Stopped by {}.\n", signal_text(stop_signal()));
  if (engine_.trouble() && !engine_.trouble()->within_step)
    print_to(text_, "Stopped: the loss is NaN or infinite at step {}.\n", steps - 1);
  print_line(text_, "steps", fmt::format("{}", steps));
  summarize_steps();
  for (const auto& history : engine_.histories()) {
    FindingsScan scan(history);
    scan.advance(INT64_MAX);
    print_line(text_, "health",
               (engine_.histories().size() > 1 ? history->info().name + ": " : "") + health_text(judge_health(scan)));
  }
  print_line(text_, "all-to-all", wire_.text());
  summarize_outputs();
  if (engine_.histories().size() > 1 && job_.group.empty()) compare();
  std::fflush(text_);
}

void TrainReport::summarize_steps() {
  if (last_.losses.empty()) return;
  print_line(text_, "final loss",
             fmt::format("{:.4f} nats/token (mean of the last {} steps: {:.4f})", last_.losses.back(),
                         last_.losses.size(), last_.mean_loss()));
  print_line(text_, "speed", fmt::format("{:.0f} tokens/s", progress_.tokens_per_s()));
  print_line(text_, "GEMMs", multiplied_by(engine_.histories().front()->info().kernels));
  if (!is_missing(last_.max_vio))
    print_line(text_, "MaxVio",
               fmt::format("{:.3f} in the last batch, {:.3f} over {} steps (mean over MoE layers)", last_.max_vio,
                           last_.max_vio_window, config().telemetry.window));
}

void TrainReport::summarize_outputs() {
  const auto written = [](bool ended) { return ended ? ", not to the end (see above)" : ""; };
  const std::string& recording = engine_.recording();
  if (!recording.empty()) print_line(text_, "recording", recording + written(recording_said_));
  if (!o_.jsonl.empty() && o_.jsonl != "-") print_line(text_, "JSON lines", o_.jsonl + written(lines_said_));
  const TrainCheckpoints& checkpoints = job_.outputs->checkpoints;
  const std::string& newest = checkpoints.newest();
  if (checkpoints.error().empty())
    print_line(text_, "checkpoint", newest);
  else
    print_line(text_, "checkpoint",
               (newest.empty() ? "none could be written" : newest + ", no later one") + " (see above)");
}

void TrainReport::compare() {
  std::vector<RunConfig> configs;
  std::vector<JudgedRun> runs;
  const std::vector<HistoryPtr>& histories = engine_.histories();
  for (const Engine::Run& run : engine_.runs()) {
    configs.push_back(run.trainer.config());
    runs.push_back({configs.back(), histories[runs.size()]});
  }
  const std::vector<Outcome> found = outcomes(runs);
  print_to(text_, "\n{}", printable_lines(comparison_report(histories, configs, found, o_.epsilon)));
  if (writes() && !o_.table.empty()) unwritten_ |= !write_table(o_.table, found, text_);
}

std::string outcomes_report(std::span<const Outcome> outcomes) {
  if (outcomes.empty()) return {};
  std::string text = fmt::format(
      "Outcomes, losses in nats/token; loss, flips and speed over the last {} steps, the rest as last measured\n{}",
      kOutcomeSteps, table_text(outcomes));
  bool has_twin = false, validates = false;
  for (const Outcome& outcome : outcomes) {
    has_twin |= outcome.noise_twin;
    validates |= outcome.conclusion.loss == Metric::val_loss;
    if (outcome.noise_twin) continue;
    if (const std::string verdict = verdict_sentence(outcome.conclusion); !verdict.empty()) text += verdict + '\n';
  }
  text +=
      "All groups read the same batches and trained run A to the same bits, so that candidates of different groups can "
      "be compared.\n";
  text += fmt::format("Gaps are means of paired {} losses over the last half of the steps",
                      validates ? "validation" : "training");
  if (!has_twin) return text + ". Add --perturbed-twin or --noise-twin to see how much of a gap is noise.\n";
  return text + fmt::format(
                    ", with 95 % intervals by the noise twins; {} % of run A's loss counts as a difference that "
                    "matters.\n",
                    shortest(100 * kRelevantGap));
}

void check_table_name(const std::string& path) {
  if (!path.empty() && !path.ends_with(".csv") && !path.ends_with(".json"))
    throw std::runtime_error(fmt::format("--table {}: expected a name that ends in .csv or .json", path));
}

bool write_table(const std::string& path, std::span<const Outcome> outcomes, std::FILE* text) {
  try {
    const ValueTable table = outcomes_table(outcomes);
    write_whole_file(path, path.ends_with(".json") ? json_rows(table).dump(2) + '\n' : to_csv(table));
  } catch (const std::runtime_error& error) {
    print_to(stderr, "moescope-cli: error: --table {}\n", printable(error.what()));
    return false;
  }
  print_to(text, "table       {}\n", printable(path));
  return true;
}

}  // namespace moescope
