#include "app/cli/record/cli_run.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "app/cli/command_line.h"
#include "app/cli/record/recording_in_work.h"
#include "app/cli/train/text_columns.h"
#include "core/checkpoints/checkpoint_run.h"
#include "core/io/input_file.h"
#include "core/io/output_guard.h"
#include "core/io/text_escape.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLargestText = std::uint64_t{1} << 30;
constexpr double kGiga = 1e9, kMega = 1e6;

struct RunCommand {
  std::string folder, out;
  std::vector<std::string> ids;
  int length = 512, batch = 4;
  bool overwrite = false, quiet = false;
};

// Numbers, between them anything that begins none: a JSON list, or a line each.
std::vector<std::int32_t> read_ids(const std::string& path) {
  const std::string text = read_file(path, kLargestText, "file of token ids");
  std::vector<std::int32_t> ids;
  for (const char *at = text.data(), *end = at + text.size(); at < end;) {
    std::int32_t id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error == std::errc::result_out_of_range) throw std::runtime_error(path + ": holds a number beyond 2^31");
    if (error == std::errc()) {
      ids.push_back(id);
      at = next;
    } else if (std::string_view(" \t\r\n,[]").find(*at) != std::string_view::npos) {
      ++at;
    } else {
      throw std::runtime_error(path + ": holds '" + printable(std::string(1, *at)) +
                               "'; allowed: whole numbers between blanks and commas");
    }
  }
  return ids;
}

std::vector<LabelledText> texts_of(const RunCommand& command) {
  std::vector<LabelledText> texts;
  for (const std::string& path : command.ids) texts.push_back({fs::path(path).stem().string(), read_ids(path)});
  return texts;
}

std::string bytes_text(double bytes) {
  char text[32];
  std::snprintf(text, sizeof text, bytes >= kGiga ? "%.2f GB" : "%.1f MB", bytes / (bytes >= kGiga ? kGiga : kMega));
  return text;
}

void print_beforehand(const CheckpointModel& model, const RunCommand& command) {
  const CheckpointConfig& config = model.config();
  std::printf("%s: %s, %zu layers (%zu with experts), %d experts, top %d, %.4g M parameters in %s\n",
              printable(command.folder).c_str(), architecture_name(config.architecture), config.layers.size(),
              model.moe_layers().size(), config.experts, config.router.config.top_k,
              static_cast<double>(model.parameters()) / kMega,
              bytes_text(static_cast<double>(model.stored_bytes())).c_str());
  std::printf("memory: %s for a batch of %d x %d tokens; weights are read from the files\n",
              bytes_text(static_cast<double>(model.working_bytes(command.batch, command.length))).c_str(),
              command.batch, command.length);
  std::printf("time: %.3g s for 1,000 tokens, measured on one layer of each kind\n",
              1000 * model.measured_seconds_per_token());
  std::fflush(stdout);
}

void print_losses(const CheckpointRun& run, double seconds) {
  const auto row = [](const std::string& name, const TextLoss& loss) {
    char mean[32], perplexity[32];
    std::snprintf(mean, sizeof mean, "%.5f", loss.mean());
    std::snprintf(perplexity, sizeof perplexity, "%.4g", std::exp(loss.mean()));
    return TextRow{name, std::to_string(loss.tokens), loss.tokens ? mean : "-", loss.tokens ? perplexity : "-"};
  };
  std::vector<TextRow> rows{{"text", "tokens predicted", "loss, nats/token", "perplexity"}};
  for (std::size_t d = 0; d < run.losses().size(); ++d)
    rows.push_back(row(printable(run.info().domains[d]), run.losses()[d]));
  if (run.losses().size() > 1) rows.push_back(row("all", run.loss()));
  std::fputs(aligned(rows).c_str(), stdout);
  std::printf("%lld tokens in %.2f s: %.0f tokens/s\n", static_cast<long long>(run.tokens()), seconds,
              static_cast<double>(run.tokens()) / seconds);
}

// Shares of an even load, 1 is fair.
void print_load(const CheckpointRun& run) {
  const RunInfo& info = run.info();
  if (info.moe_layers.empty()) return;
  std::printf("load of each expert, in fair shares:\n");
  for (std::size_t i = 0; i < info.moe_layers.size(); ++i) {
    double slots = 0;
    for (const std::uint64_t n : run.load()[i]) slots += static_cast<double>(n);
    std::printf("layer %d:", info.moe_layers[i]);
    for (const std::uint64_t n : run.load()[i]) std::printf(" %.2f", static_cast<double>(n) * info.n_experts / slots);
    std::printf("\n");
  }
}

void show_progress(const CheckpointRun& run, std::int64_t step) {
  if (isatty(STDERR_FILENO) != 1) return;
  std::fprintf(stderr, "\rbatch %lld of %lld\x1b[K", static_cast<long long>(step), static_cast<long long>(run.steps()));
  if (step == run.steps()) std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
}

void run(const RunCommand& command) {
  std::vector<std::string> inputs = command.ids;
  inputs.push_back(command.folder);
  guard_outputs(inputs, {{"--out", command.out}}, command.overwrite);
  const std::vector<LabelledText> texts = texts_of(command);
  const CheckpointModel model(command.folder);
  CheckpointRun run(model, texts, {command.length, command.batch, fs::path(command.folder).filename().string()});
  if (!command.quiet) print_beforehand(model, command);
  std::optional<RecordingInWork> recording;
  if (!command.out.empty()) {
    recording.emplace(command.out);
    recording->begin();
    recording->add(run.info());
    recording->add(Marker{0, 0, kSettingsMarker, run.settings()});
  }
  double seconds = 0;
  for (std::int64_t step = 0; step < run.steps(); ++step) {
    if (!command.quiet) show_progress(run, step);
    const auto frame = std::make_shared<const TelemetryFrame>(run.step());
    seconds = frame->wall_s;
    if (recording) recording->add(frame);
  }
  if (!command.quiet) show_progress(run, run.steps());
  if (recording) recording->finish();
  print_losses(run, seconds);
  print_load(run);
}

}  // namespace

void add_run_command(CLI::App& app) {
  auto command = std::make_shared<RunCommand>();
  Command sub(app, "run", "Run texts through a checkpoint of Hugging Face's transformers");
  sub.option("FOLDER", command->folder, "A folder with config.json and model*.safetensors: " + architecture_names())
      .required();
  sub.option("--ids", command->ids, "Token ids of a text, whole numbers; a domain named as the file; may be repeated")
      .required()
      .repeatable();
  sub.option("--length", command->length, "Tokens of a piece of text, which sees nothing before it")
      .range(2, 1 << 20)
      .shows_default();
  sub.option("--batch", command->batch, "Pieces at once: a step of the recording").range(1, 1 << 16).shows_default();
  sub.option("-o,--out", command->out, "Recording to write, whose steps are batches");
  sub.option("--overwrite", command->overwrite, "Replace an existing file");
  sub.option("--quiet", command->quiet, "Print losses and loads only");
  sub.footer(
      "Weights stay in their files, mapped, as they are stored: BF16, F16, F32, FP8 with scales, MXFP4, NVFP4, MXFP8.\n"
      "They are multiplied in FP32. Says beforehand: parameters, memory, expected time. Prints each text's loss and\n"
      "perplexity, and every expert's load.\n"
      "Example:\n"
      "  moescope-cli run olmoe --ids german.txt --ids python.txt -o olmoe.moescope\n"
      "Exit status: 0 done, 1 writing failed, 2 wrong input.");
  sub.runs([command] { run(*command); });
}

}  // namespace moescope
