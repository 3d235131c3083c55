#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "app/cli/command_line.h"
#include "app/cli/record/recording_in_work.h"
#include "app/cli/train/cli_progress.h"
#include "app/cli/train/cli_train_options.h"
#include "core/checkpoints/ablation/format_plan.h"
#include "core/checkpoints/checkpoint_folder.h"
#include "core/checkpoints/checkpoint_model.h"
#include "core/checkpoints/checkpoint_run.h"
#include "core/checkpoints/checkpoint_tokenizer.h"
#include "core/checkpoints/pair/checkpoint_pair.h"
#include "core/files/output_guard.h"
#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/findings/comparison/verdict_words.h"
#include "core/frame/specialisation.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

constexpr double kGiga = 1e9, kMega = 1e6;

struct RunCommand {
  std::string folder, with, out, arithmetic = "fp32", recipe;
  TextSources texts;
  int batch = 4, written = 0, twin_pieces = 8;
  bool overwrite = false, quiet = false, without_each = false;
  double plan_bits = 0;  // 0: no plan
  std::vector<std::string> plan_keep;
  std::string plan_file;
};

std::optional<CheckpointTokenizer> tokenizer_of(const RunCommand& command) {
  if (!fs::exists(fs::path(command.folder) / "tokenizer.json") && command.texts.texts.empty()) return std::nullopt;
  return open_checkpoint_tokenizer(command.folder);
}

void print_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) print_to(stderr, "note: {}\n", printable(note));
}

// Prints the part of the result that is known, since the next part may take minutes.
void print_part(Report& report) {
  print_report(std::exchange(report, {}));
  std::fflush(stdout);
}

std::string bytes_text(double bytes) {
  return bytes >= kGiga ? fmt::format("{:.2f} GB", bytes / kGiga) : fmt::format("{:.1f} MB", bytes / kMega);
}

void add_beforehand(Report& report, const CheckpointModel& model, const RunCommand& command) {
  const CheckpointConfig& config = model.config();
  report.sentence(fmt::format("{}: {}, {} layers ({} with experts), {} experts, top {}, {:.4g} M parameters in {}",
                              command.folder, config.architecture, config.layers.size(), model.moe_layers().size(),
                              config.experts, config.router.config.top_k, model.parameters() / kMega,
                              bytes_text(model.stored_bytes())));
  report.sentence(
      fmt::format("memory: {} for a batch of {} x {} tokens, without the weights, which are read from mapped files",
                  bytes_text(model.working_bytes(Index{command.batch} * command.texts.length)), command.batch,
                  command.texts.length));
  report.sentence(fmt::format("time: about {:.3g} s for 1,000 tokens, estimated from one layer of each kind",
                              1000 * model.measured_seconds_per_token()));
}

void add_losses(Report& report, const CheckpointRun& run, double seconds) {
  ValueTable table(
      {{"text"}, {"tokens predicted"}, {.name = "loss", .unit = "nats/token", .format = ".5f"}, {"perplexity"}});
  const auto add = [&](const std::string& name, const TextLoss& loss) {
    const double mean = loss.tokens ? loss.mean() : kNoValue;
    table.add(name, loss.tokens, mean, std::exp(mean));
  };
  for (std::size_t d = 0; d < run.losses().size(); ++d) add(run.info().domains[d], run.losses()[d]);
  if (run.losses().size() > 1) add("all", run.loss());
  report.table("", table);
  report.sentence(fmt::format("{} tokens in {:.2f} s: {:.0f} tokens/s", run.tokens(), seconds, run.tokens() / seconds));
}

void add_load(Report& report, const CheckpointRun& run) {
  const RunInfo& info = run.info();
  if (info.moe_layers.empty()) return;
  report.sentence("load of each expert, in fair shares:");
  for (std::size_t i = 0; i < info.moe_layers.size(); ++i)
    report.sentence(fmt::format("layer {}: {}", info.moe_layers[i], joined(run.fair_shares(i), " ", [](double share) {
                                  return fmt::format("{:.2f}", share);
                                })));
}

void add_written(Report& report, const CheckpointModel& model, const std::vector<LabelledText>& texts,
                 const RunCommand& command, const Tokenizer* tokenizer) {
  for (const LabelledText& text : texts) {
    if (text.ids.empty()) continue;
    const std::span<const std::int32_t> all = text.ids;
    const auto prompt = all.last(std::min(all.size(), static_cast<std::size_t>(command.texts.length)));
    const WrittenText written = continue_text(model, prompt, command.written);
    report.sentence(
        fmt::format("continuation of {} ({} tokens read at {:.0f} tokens/s, {} written at {:.1f} tokens/s):", text.name,
                    prompt.size(), prompt.size() / written.prefill_s, written.ids.size(),
                    (written.ids.size() - 1) / written.decode_s));
    report.lines((tokenizer ? tokenizer->decode(written.ids)
                            : joined(written.ids, " ", [](std::int32_t id) { return std::to_string(id); })) +
                 '\n');
  }
}

std::string interval_text(const FigureOfPieces& figure, double factor) {
  return fmt::format("{:.3g}", factor * figure.mean) +
         (std::isnan(figure.interval) ? "" : fmt::format(" +- {:.2g}", factor * figure.interval));
}

// Adds how much the forward pass of each published recipe changes the loss, against kRelevantGap of the loss.
void add_published(Report& report, const PrecisionScan& scan) {
  const double matters = kRelevantGap * scan.loss;
  report.sentence(fmt::format(
      "forward passes of published recipes, the gate in FP32; a change of {:.2g} nats/token ({:.2g} % of the loss) "
      "matters:",
      matters, 100 * kRelevantGap));
  ValueTable table({"recipe", "divergence, 1e-3 nats/token", "loss, 1e-3 nats/token", "against what matters"});
  for (const PublishedFit& fit : scan.published)
    table.add(fit.name, interval_text(fit.divergence, 1e3), interval_text(fit.loss_change, 1e3),
              to_text(fit_of(fit, scan.loss, kRelevantGap)));
  report.table("", table);
}

std::function<bool(int done, int passes)> shown_passes(const RunCommand& command) {
  return [quiet = command.quiet](int done, int passes) {
    if (!quiet) show_count("pass", done, passes);
    return true;
  };
}

// Adds how much the predictions change when one operand at a time is rounded.
PrecisionScan add_twins(Report& report, CheckpointModel& model, const std::vector<LabelledText>& texts,
                        const RunCommand& command, Recipe recipe) {
  const PrecisionScan scan =
      compare_precision(model, texts, {command.texts.length, command.twin_pieces}, recipe, shown_passes(command));
  report.sentence(fmt::format("one operand at a time in {}, all else in FP32, 95 % intervals over {} pieces of text:",
                              recipe_info(recipe).name, scan.pieces));
  ValueTable table({"operand", "divergence, 1e-3 nats/token", "distance to the first of its kind",
                    "loss, 1e-3 nats/token", "other experts, %"});
  for (const PrecisionTwin& twin : scan.twins)
    table.add(twin_name(twin), interval_text(twin.divergence, 1e3), interval_text(twin.behind, 1e3),
              interval_text(twin.loss_change, 1e3), interval_text(twin.flips, 100));
  report.table("", table);
  add_published(report, scan);
  return scan;
}

PlanRequest plan_request(const RunCommand& command) {
  PlanRequest request{.bits = command.plan_bits};
  for (int i = 0; i < kNumGemmClasses; ++i) {
    const auto gemm_class = static_cast<GemmClass>(i);
    if (std::ranges::find(command.plan_keep, gemm_class_name(gemm_class)) != command.plan_keep.end())
      request.kept_classes.push_back(gemm_class);
  }
  return request;
}

std::string plan_row_name(const PlanRow& row) {
  const std::string layer = row.layer < 0 ? "" : fmt::format("layer {}, ", row.layer);
  const std::vector<int> experts = row.experts();
  return layer + gemm_class_name(row.gemm_class) + (experts.empty() ? "" : " " + listed(experts, 1 << 16));
}

// Adds a format for each group of weights within the budget, and writes it as configs.
void add_plan(Report& report, CheckpointModel& model, const std::vector<LabelledText>& texts,
              const RunCommand& command) {
  const FormatPlan plan = plan_formats(model, texts, {command.texts.length, command.twin_pieces}, plan_request(command),
                                       shown_passes(command));
  report.sentence(fmt::format("plan of {:.4g} bits per weight, activations not rounded:", plan.bits));
  ValueTable rows({{"weights"}, {"format"}, {.name = "number", .unit = "million", .format = ".3f"}});
  for (const PlanRow& row : plan_rows(plan))
    rows.add(plan_row_name(row), recipe_info(row.format).name, row.weights() / kMega);
  report.table("", rows);
  report.sentence(
      fmt::format("chosen in {}: divergence {} measured, {:.3g} as the sum of single changes, 1e-3 nats/token",
                  counted(plan.rounds, "round", "rounds"), interval_text(plan.ranking_divergence, 1e3),
                  1e3 * plan.summed_divergence));
  if (plan.unused_experts > 0)
    report.sentence(fmt::format("{} got no token of these texts: no measurement supports the format",
                                counted(plan.unused_experts, "expert", "experts")));
  report.sentence(fmt::format("against {:.5f} nats/token in FP32, on {} that had no part in the choice:", plan.loss,
                              counted(plan.pieces, "piece of text", "pieces of text")));
  ValueTable effects({{"formats"},
                      {.name = "bits per weight", .digits = 4},
                      {"divergence, 1e-3 nats/token"},
                      {"loss, 1e-3 nats/token"}});
  const auto add = [&](const PublishedFit& fit, const std::string& name, double bits) {
    effects.add(name, bits, interval_text(fit.divergence, 1e3), interval_text(fit.loss_change, 1e3));
  };
  add(plan.effect, "the plan", plan.bits);
  for (const PublishedFit& fit : plan.uniform) add(fit, "all weights in " + fit.name, bits_of(*recipe_named(fit.name)));
  report.table("", effects);
  if (!command.plan_file.empty()) write_output("--write-plan", command.plan_file, plan_json(plan));
}

constexpr std::size_t kMaxDomainColumns = 8;

void add_pruning(Report& report, const ExpertScan& scan) {
  if (scan.pruning.empty()) return;
  report.sentence(fmt::format(
      "loss without several experts of every layer, 1e-3 nats/token{}:",
      scan.pieces > 1 ? "; experts are ranked on every second piece, the loss is measured on the others" : ""));
  ValueTable table({"experts removed", "smallest divergence", "smallest saliency", "random, interval over 5 choices"});
  for (const PrunedModel& model : scan.pruning)
    table.add(model.removed, interval_text(model.by_divergence, 1e3), interval_text(model.by_saliency, 1e3),
              interval_text(model.random, 1e3));
  report.table("", table);
}

std::string most_similar_text(const ExpertSimilarity& similarity, const ExpertCost& cost) {
  const LayerSimilarity* layer = similarity.find(cost.layer);
  const int other = layer ? layer->most_similar(cost.expert) : -1;
  return other < 0 ? "-" : fmt::format("{}: {}", other, interval_text(layer->cosine(cost.expert, other), 1));
}

struct ExpertFigures {
  ExpertScan scan;
  ExpertSimilarity similarity;
};
// Adds what the model loses without each expert, and how similar the experts are.
ExpertFigures add_without_each(Report& report, CheckpointModel& model, const std::vector<LabelledText>& texts,
                               const RunCommand& command) {
  const ComparedTexts which{command.texts.length, command.twin_pieces};
  ExpertFigures figures{remove_each_expert(model, texts, which, shown_passes(command)),
                        similarity_of_experts(model, texts, which, shown_passes(command))};
  const ExpertScan& scan = figures.scan;
  report.sentence(fmt::format("one expert left out at a time, 95 % intervals over {} pieces of text:", scan.pieces));
  const bool by_domain = scan.domains.size() > 1 && scan.domains.size() <= kMaxDomainColumns;
  std::vector<ValueColumn> columns{{"expert"},
                                   {.name = "load", .unit = "fair shares", .format = ".2f"},
                                   {.name = "saliency", .digits = 3},
                                   {"most similar: cosine"},
                                   {"divergence, 1e-3 nats/token"},
                                   {"loss, 1e-3 nats/token"}};
  if (by_domain)
    for (const std::string& domain : scan.domains) columns.push_back({.name = "on " + domain, .digits = 3});
  ValueTable table(columns);
  for (const ExpertCost& cost : scan.experts) {
    std::vector<TableValue> row{fmt::format("layer {}, expert {}", cost.layer, cost.expert),
                                cost.load,
                                cost.saliency,
                                most_similar_text(figures.similarity, cost),
                                interval_text(cost.divergence, 1e3),
                                interval_text(cost.loss_change, 1e3)};
    if (by_domain)
      for (const FigureOfPieces& loss : cost.loss_by_domain) row.emplace_back(1e3 * loss.mean);
    table.add_row(row);
  }
  report.table("", table);
  add_pruning(report, scan);
  return figures;
}

// Adds figures that compare checkpoint B with A: means over the batches, with intervals.
void add_pair_figures(Report& report, const HistoryPtr& a, const HistoryPtr& b) {
  ValueTable table({{"B against A"}, {"mean over batches"}, {.name = "95 % interval, +-", .digits = 2}});
  const auto row = [&](const std::string& name, Metric metric, int layer, double factor) {
    if (const auto figure = figure_of_texts(*b, metric, layer))
      table.add(name, factor * figure->mean, factor * figure->interval);
  };
  row("KL divergence of the predictions, 1e-3 nats/token", Metric::fp32_kl, kWholeRun, 1e3);
  row("k1, 1e-3 nats/token", Metric::fp32_k1, kWholeRun, 1e3);
  row("k3, 1e-3 nats/token", Metric::fp32_k3, kWholeRun, 1e3);
  row("probability ratio beyond 2, % of the tokens", Metric::fp32_ratio_beyond_2, kWholeRun, 100);
  row("other experts in at least one layer, % of the tokens", Metric::fp32_any_layer_flipped, kWholeRun, 100);
  for (const int layer : b->info().moe_layers)
    row(fmt::format("other experts in layer {}, % of the tokens", layer), Metric::flip_rate, layer, 100);
  report.table("", table);
  report.sentence(verdict_sentence(conclude(a, {b}, {})));
}

void add_pair_losses(Report& report, const CheckpointPair& pair) {
  ValueTable table({{"text"},
                    {"tokens predicted"},
                    {.name = "loss of A", .unit = "nats/token", .format = ".5f"},
                    {.name = "loss of B", .unit = "nats/token", .format = ".5f"},
                    {.name = "B minus A", .unit = "nats/token", .format = "+.5f"}});
  const auto row = [&](const std::string& name, const TextLoss& a, const TextLoss& b) {
    const double mean_a = a.tokens ? a.mean() : kNoValue, mean_b = a.tokens ? b.mean() : kNoValue;
    const double gap = std::round(1e5 * (mean_b - mean_a)) / 1e5;
    table.add_row(std::vector{table_value(name), table_value(a.tokens), table_value(mean_a), table_value(mean_b),
                              gap == 0 ? table_value(0) : table_value(gap)});  // 0 without a sign
  };
  for (std::size_t d = 0; d < pair.a().losses().size(); ++d)
    row(pair.a().info().domains[d], pair.a().losses()[d], pair.b().losses()[d]);
  if (pair.a().losses().size() > 1) row("all", pair.a().loss(), pair.b().loss());
  report.table("", table);
}

void require_alone(const RunCommand& command) {
  const bool more = command.written > 0 || !command.recipe.empty() || command.without_each || command.plan_bits != 0;
  if (more)
    throw std::runtime_error("--with: cannot be combined with --write, --recipe, --plan-bits or --without-each-expert");
}

void begin_run(RecordingInWork& recording, const CheckpointRun& run, const std::vector<std::string>& notes) {
  const RunInfo& info = run.info();
  recording.add(info);
  if (!fits_coactivation(info.moe_layers.size(), info.n_experts))
    recording.add(Marker{info.run, 0, "event",
                         fmt::format("The co-activation of {} experts in {} layers is left out: its table is too large",
                                     info.n_experts, info.moe_layers.size())});
  recording.add(Marker{run.info().run, 0, kSettingsMarker, run.settings()});
  for (const std::string& note : notes) recording.add(Marker{run.info().run, 0, "event", note});
}

void run_pair(const RunCommand& command, const CheckpointModel& a, const ReadTexts& read, const Tokenizer* tokenizer) {
  require_same_tokenizer(command.folder, command.with);
  const CheckpointModel b(command.with, command.arithmetic == "bf16" ? Arithmetic::bf16 : Arithmetic::fp32);
  print_notes(b.notes());
  CheckpointPair pair({a, command.folder}, {b, command.with}, read.texts, command.texts, tokenizer);
  pair.set_weights(weight_difference(a, b, [](double) { return true; }));
  Report report;
  report.sentence("A: " + command.folder);
  report.sentence("B: " + command.with);
  report.sentence(pair.weights().text());
  print_part(report);
  std::optional<RecordingInWork> recording;
  if (!command.out.empty()) {
    recording.emplace(command.out);
    begin_run(*recording, pair.a(), read.notes);
    begin_run(*recording, pair.b(), b.notes());
    recording->add(Marker{1, 0, "event", pair.weights().text()});
  }
  const auto history_a = std::make_shared<History>(pair.a().info()),
             history_b = std::make_shared<History>(pair.b().info());
  history_a->append(Marker{0, 0, kSettingsMarker, pair.a().settings()});
  history_b->append(Marker{1, 0, kSettingsMarker, pair.b().settings()});
  for (std::int64_t step = 0; step < pair.steps(); ++step) {
    if (!command.quiet) show_count("batch", step, pair.steps());
    CheckpointPair::Frames frames = pair.step();
    const auto frame_a = std::make_shared<const TelemetryFrame>(std::move(frames.a)),
               frame_b = std::make_shared<const TelemetryFrame>(std::move(frames.b));
    history_a->append(frame_a);
    history_b->append(frame_b);
    if (!recording) continue;
    recording->add(frame_a);
    recording->add(frame_b);
  }
  if (!command.quiet) show_count("batch", pair.steps(), pair.steps());
  add_pair_losses(report, pair);
  add_pair_figures(report, history_a, history_b);
  print_part(report);
  if (recording) recording->finish();
}

std::vector<std::string> inputs_of(const RunCommand& command) {
  std::vector<std::string> inputs = command.texts.token_ids;
  inputs.insert(inputs.end(), command.texts.texts.begin(), command.texts.texts.end());
  inputs.push_back(command.folder);
  if (!command.with.empty()) inputs.push_back(command.with);
  return inputs;
}

// Runs all batches through the model and returns the seconds that they took.
double take_steps(const RunCommand& command, CheckpointRun& run, std::optional<RecordingInWork>& recording) {
  double seconds = 0;
  for (std::int64_t step = 0; step < run.steps(); ++step) {
    if (!command.quiet) show_count("batch", step, run.steps());
    const auto frame = std::make_shared<const TelemetryFrame>(run.step());
    seconds = frame->wall_s;
    if (recording) recording->add(frame);
  }
  if (!command.quiet) show_count("batch", run.steps(), run.steps());
  return seconds;
}

void run(RunCommand command) {
  command.folder = checkpoint_folder(command.folder);
  if (!command.with.empty()) command.with = checkpoint_folder(command.with);
  if (!command.with.empty()) require_alone(command);
  guard_outputs(inputs_of(command), {{"--out", command.out}, {"--write-plan", command.plan_file}}, command.overwrite);
  const std::optional<Recipe> recipe = recipe_option(command.recipe);
  CheckpointModel model(command.folder, command.arithmetic == "bf16" ? Arithmetic::bf16 : Arithmetic::fp32);
  if (command.plan_bits != 0) require_plan(model, plan_request(command));
  const std::optional<CheckpointTokenizer> opened = tokenizer_of(command);
  const Tokenizer* tokenizer = opened ? &opened->tokenizer : nullptr;
  ReadTexts read = read_all(command.texts, tokenizer);
  const std::vector<LabelledText>& texts = read.texts;
  if (texts.empty()) throw std::runtime_error("no text is given; use --text or --ids");
  const bool fits = fits_coactivation(model.moe_layers().size(), model.config().experts);
  if (command.without_each && !fits)
    throw std::runtime_error("--without-each-expert: the model has too many experts to compare each with each");
  if (opened) read.notes.insert(read.notes.begin(), opened->notes.begin(), opened->notes.end());
  read.notes.insert(read.notes.begin(), model.notes().begin(), model.notes().end());
  print_notes(read.notes);
  if (!command.with.empty()) return run_pair(command, model, read, tokenizer);
  CheckpointRun run(model, texts,
                    {.source = command.folder,
                     .texts = command.texts,
                     .sequences = command.batch,
                     .run_name = fs::weakly_canonical(command.folder).filename().string(),
                     .tokenizer = tokenizer});
  Report report;
  if (!command.quiet) add_beforehand(report, model, command);
  print_part(report);
  std::optional<RecordingInWork> recording;
  if (!command.out.empty()) {
    recording.emplace(command.out);
    begin_run(*recording, run, read.notes);
  }
  add_losses(report, run, take_steps(command, run, recording));
  add_load(report, run);
  print_part(report);
  if (command.written > 0) add_written(report, model, texts, command, tokenizer);
  print_part(report);
  if (recipe) {
    const PrecisionScan scan = add_twins(report, model, texts, command, *recipe);
    print_part(report);
    if (recording) recording->add(Marker{0, run.steps() - 1, kOperandsMarker, scan_json(scan)});
  }
  if (command.without_each) {
    const ExpertFigures figures = add_without_each(report, model, texts, command);
    print_part(report);
    if (recording) {
      recording->add(Marker{0, run.steps() - 1, kExpertsMarker, scan_json(figures.scan)});
      recording->add(Marker{0, run.steps() - 1, kSimilarityMarker, similarity_json(figures.similarity)});
    }
  }
  if (recording) recording->finish();
  if (command.plan_bits != 0) add_plan(report, model, texts, command);
  print_part(report);
}

}  // namespace

void add_run_command(CLI::App& app) {
  auto command = std::make_shared<RunCommand>();
  Command sub(app, "run", "Run texts through a checkpoint of Hugging Face's transformers");
  sub.option("FOLDER", command->folder,
             "A folder with config.json and model*.safetensors, or a cache of Hugging Face with one model: " +
                 architecture_names())
      .required();
  sub.option("--text", command->texts.texts,
             "A text file, or a folder with a file or a folder for each domain; the name of a file or folder is the "
             "name of its domain; needs tokenizer.json in FOLDER; may be repeated")
      .repeatable();
  sub.option("--ids", command->texts.token_ids,
             "A file of token ids, whole numbers; the name of the file is the name of its domain; may be repeated")
      .repeatable();
  sub.option("--write", command->written,
             "Number of tokens with which the model continues each text; it takes the likeliest token each time")
      .range(0, 1 << 20);
  sub.option("--with", command->with,
             "Folder of a second checkpoint with the same tokenizer, run as run B on the same texts, one piece in a "
             "batch; prints where weights, experts, predictions and losses differ from those of FOLDER, run A");
  sub.option("--length", command->texts.length,
             "Tokens in a piece of text; attention does not reach the pieces before it")
      .range(2, 1 << 20)
      .shows_default();
  sub.option("--batch", command->batch, "Pieces in a batch; each batch is one step of the recording")
      .range(1, 1 << 16)
      .shows_default();
  sub.option("--recipe", command->recipe,
             "Round one operand at a time by this recipe and rank the operands by the change of the predictions");
  sub.option("--without-each-expert", command->without_each,
             "Leave out one expert at a time and rank the experts by the change of the predictions");
  sub.option("--twin-pieces", command->twin_pieces,
             "Largest number of pieces of text for --recipe, --without-each-expert and --plan-bits")
      .range(1, 1 << 20)
      .shows_default();
  const Option plan_bits =
      sub.option("--plan-bits", command->plan_bits,
                 "Choose a format for the weights of each layer, class and expert, so that all together take at most "
                 "this number of bits per weight: mxfp4 4.25, nvfp4 4.5, mxfp8_rceil 8.25, bf16 16")
          .range(1.0, 16.0);
  sub.option(
         "--plan-keep", command->plan_keep,
         "Class that stays in BF16 in the plan: experts, shared_experts, dense_ffn, attention, router_gate or head; "
         "may be repeated")
      .one_of({"experts", "shared_experts", "dense_ffn", "attention", "router_gate", "head"})
      .repeatable()
      .needs(plan_bits);
  sub.option("--write-plan", command->plan_file,
             "JSON file for the plan and its configs for llm-compressor, Model-Optimizer, torchao and a training of "
             "this program")
      .needs(plan_bits);
  sub.option("--arithmetic", command->arithmetic,
             "Arithmetic of products with weights: fp32, or bf16, which rounds both operands and is faster on "
             "processors with matrix units")
      .one_of({"fp32", "bf16"})
      .shows_default();
  sub.option("-o,--out", command->out, "Recording to write; its steps are the batches");
  sub.option("--overwrite", command->overwrite, "Replace an existing file");
  sub.option("--quiet", command->quiet, "Print losses and loads only");
  sub.runs([command] { run(*command); });
}

}  // namespace moescope
