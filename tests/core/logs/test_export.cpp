// Recordings in the formats of other programs, read back by readers that share no code with this program.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/files/tensors/safetensors.h"
#include "core/logs/log_exports.h"
#include "core/logs/open_runs.h"
#include "core/numerics/processor.h"
#include "core/recording/recording.h"
#include "core/training/checkpoint_folder.h"
#include "core/training/engine/live_runs.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::int64_t kSteps = 30;

struct Ran {
  int status;
  std::string out;
};

Ran ran(const std::string& command) {
  Ran result{-1, {}};
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (!pipe) return result;
  char part[4096];
  while (const std::size_t n = fread(part, 1, sizeof part, pipe)) result.out.append(part, n);
  const int status = pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
  return result;
}

bool has_program(const std::string& name) {
  return ran("command -v " + name).status == 0;
}

RunConfig small_config() {
  RunConfig config;
  config.name = "first";
  config.model = {.dim = 32,
                  .n_layers = 3,
                  .dense_inter = 64,
                  .n_heads = 2,
                  .kv_lora_rank = 16,
                  .qk_nope_head_dim = 8,
                  .qk_rope_head_dim = 8,
                  .v_head_dim = 16,
                  .n_experts = 4,
                  .moe_inter = 32};
  config.precision.experts = Recipe::mxfp8_rceil;
  config.data.batch = 2;
  config.data.seq = 16;
  config.parallel.ranks = 2;
  config.telemetry.checkpoint_every = 10;
  return config;
}

// One recording for all tests: two runs, a change and a note.
class Export : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    root_ = fs::temp_directory_path() / ("moescope_export_" + std::to_string(::getpid()));
    fs::create_directories(root_);
    RunConfig twin = small_config();
    twin.precision.experts = Recipe::fp32;
    twin.name = "twin";
    LiveRuns live({small_config(), twin}, recording());
    live.run_until(12);
    live.flush();
    while (live.status().running) usleep(2000);
    live.change({0, &RouterConfig::bias_update_rate, 0.01});
    for (const int run : {0, 1}) live.pin({run, 12, kNoteKind, "a \"quoted\" note"});
    live.run_until(kSteps);
    while (live.status().running) usleep(2000);
    live.flush();
  }
  static void TearDownTestSuite() { fs::remove_all(root_); }
  static std::string path(const std::string& name) { return (root_ / name).string(); }
  static std::string recording() { return path("run.moescope"); }
  static std::shared_ptr<History> history(int run = 0) { return RecordingReader(recording()).load(run); }

  static Json read_by_python(const std::string& what, const std::string& file) {
    const Ran result = ran("python3 '" MOESCOPE_TEST_DATA "/read_exports.py' " + what + " '" + file + "'");
    if (result.status != 0) throw std::runtime_error(result.out);
    return Json::parse(result.out);
  }

  static fs::path root_;
};
fs::path Export::root_;

TEST_F(Export, EventsHoldEveryScalarOfEveryStep) {
  if (!has_program("python3")) GTEST_SKIP() << "python3 is not installed";
  const auto run = history();
  const std::string file = export_events(*run, path("logs"), 1.7e9);
  EXPECT_EQ(fs::path(file).parent_path(), path("logs"));
  EXPECT_TRUE(fs::path(file).filename().string().starts_with("events.out.tfevents.1700000000"));
  const Json tags = read_by_python("events", file);
  for (const char* tag : {"ce_loss", "grad_norm", "max_vio", "max_vio/layer_1", "quant_sqnr_db/layer_2"})
    EXPECT_TRUE(tags.contains(tag)) << tag;
  EXPECT_FALSE(tags.contains("max_vio/layer_0")) << "a dense layer has no router";
  const auto losses = run->values(Metric::ce_loss, kWholeRun, run->steps());
  ASSERT_EQ(tags["ce_loss"].size(), static_cast<std::size_t>(kSteps));
  for (std::size_t step = 0; step < kSteps; ++step) {
    EXPECT_EQ(tags["ce_loss"][step][0], step);
    EXPECT_EQ(tags["ce_loss"][step][1].get<float>(), losses[step]) << step;
  }
}

TEST_F(Export, EventsAreReplacedNotAddedTo) {
  const auto run = history();
  export_events(*run, path("again"), 1.6e9);
  const std::string second = export_events(*run, path("again"), 1.7e9);
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(path("again"))) files += entry.is_regular_file();
  EXPECT_EQ(files, 1);
  EXPECT_EQ(export_events(*run, path("cancelled"), 0, [](double) { return false; }), "");
  EXPECT_THROW(export_events(*run, "/dev/null/no", 0), std::runtime_error);
}

TEST_F(Export, RunsOfOneNameHaveAFolderEach) {
  const std::string parent = path("folders");
  const std::vector<std::string> names = {"run", "run", "Run", "a/b", "a_b"};
  const auto in = [&](const char* name) { return (fs::path(parent) / name).string(); };
  const std::vector<std::string> folders = {in("run"), in("run-2"), in("Run-3"), in("a_b"), in("a_b-2")};
  EXPECT_EQ(event_folders(parent, names, true), folders);
  export_events(*history(), folders[0], 1.7e9);
  EXPECT_EQ(exported_events(folders[0]).size(), 1u);
  EXPECT_TRUE(exported_events(folders[1]).empty());
  EXPECT_EQ(event_folders(parent, names, false), folders);
  EXPECT_EQ(event_folders(parent, names, true)[0], in("run-2")) << "an earlier export stays";
}

// Steps that count tokens: a loop over all their numbers would not end.
TEST_F(Export, EventsKeepStepsThatAreFarApart) {
  RunInfo info;
  info.name = "tokens";
  History run(info);
  for (std::int64_t i = 0; i < 1000; ++i) {
    auto frame = std::make_shared<TelemetryFrame>();
    frame->step = i * 4'000'000;
    frame->ce_loss = static_cast<float>(i);
    run.append(frame);
  }
  export_events(run, path("far"), 1.7e9);
  const OpenedRuns opened = open_runs({path("far")}, {}, 4);
  EXPECT_EQ(opened.histories.at(0)->count(), 1000);
  EXPECT_EQ(opened.histories.at(0)->value_at(Metric::ce_loss, kWholeRun, 3'996'000'000), 999.0f);
}

TEST_F(Export, EventsThatWereWrittenHereOpenHere) {
  export_events(*history(), path("own"), 1.7e9);
  const OpenedRuns opened = open_runs({path("own")}, {}, 4);
  ASSERT_EQ(opened.histories.size(), 1u);
  const auto run = history();
  EXPECT_EQ(opened.histories[0]->values(Metric::ce_loss, kWholeRun, run->steps()),
            run->values(Metric::ce_loss, kWholeRun, run->steps()));
}

TEST_F(Export, JsonLinesHoldEverythingAndOpenAgain) {
  ASSERT_TRUE(export_jsonl(recording(), path("all.jsonl")));
  std::ifstream file(path("all.jsonl"));
  int runs = 0, steps = 0, markers = 0;
  for (std::string line; std::getline(file, line);) {
    const Json json = Json::parse(line);
    json.contains("step") ? ++steps : ++runs;
    if (json.contains("step") && json["step"] == 5) {
      EXPECT_EQ(json["routers"].size(), 2u);
      EXPECT_EQ(json["routers"][0]["tokens_per_expert"].size(), 4u);
    }
    for (const Json& marker : json.value("markers", Json::array())) {
      ++markers;
      EXPECT_EQ(json["step"], marker["step"]);
    }
  }
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(steps, 2 * kSteps);
  EXPECT_GE(markers, 3);  // the change of one run, the note of both runs

  const OpenedRuns opened = open_runs({path("all.jsonl")}, {}, 4);
  ASSERT_EQ(opened.histories.size(), 2u);
  EXPECT_TRUE(opened.skipped.empty());
  for (int run = 0; run < 2; ++run) {
    const auto recorded = history(run);
    const auto read_markers = opened.histories[static_cast<std::size_t>(run)]->markers(),
               recorded_markers = recorded->markers();
    ASSERT_EQ(read_markers.size(), recorded_markers.size());
    for (std::size_t i = 0; i < recorded_markers.size(); ++i)
      EXPECT_EQ(std::tie(read_markers[i].run, read_markers[i].step, read_markers[i].kind, read_markers[i].text,
                         read_markers[i].key, read_markers[i].value),
                std::tie(recorded_markers[i].run, recorded_markers[i].step, recorded_markers[i].kind,
                         recorded_markers[i].text, recorded_markers[i].key, recorded_markers[i].value));
    for (const Metric metric : {Metric::ce_loss, Metric::grad_norm, Metric::max_vio, Metric::quant_sqnr_db}) {
      const auto a = opened.histories[static_cast<std::size_t>(run)]->values(metric, kWholeRun, recorded->steps());
      const auto b = recorded->values(metric, kWholeRun, recorded->steps());
      ASSERT_EQ(a.size(), b.size());
      for (std::size_t i = 0; i < a.size(); ++i)
        EXPECT_TRUE(a[i] == b[i] || (is_missing(a[i]) && is_missing(b[i]))) << i << ' ' << a[i] << ' ' << b[i];
    }
  }
}

TEST_F(Export, CancelledOrRefusedFilesAreNotThere) {
  EXPECT_FALSE(export_jsonl(recording(), path("no.jsonl"), [](double) { return false; }));
  EXPECT_FALSE(export_trace(recording(), path("no.json"), [](double) { return false; }));
  for (const auto& entry : fs::directory_iterator(fs::path(path("no.jsonl")).parent_path())) {
    const std::string name = entry.path().filename().string();
    EXPECT_FALSE(name.starts_with("no.") || name.starts_with(".moescope-")) << name;
  }
  EXPECT_THROW(export_jsonl(recording(), "/no/such/folder/x.jsonl"), std::runtime_error);
  EXPECT_THROW(export_jsonl(path("nothing.moescope"), path("x.jsonl")), std::runtime_error);
}

TEST_F(Export, TraceHasAStepAndItsPhasesWithoutOverlap) {
  if (!has_program("python3")) GTEST_SKIP() << "python3 is not installed";
  ASSERT_TRUE(export_trace(recording(), path("trace.json")));
  const Json read = read_by_python("trace", path("trace.json"));
  EXPECT_EQ(read["lanes"], 4);                            // steps and phases of two runs
  EXPECT_GT(read["counts"]["X"], 2 * kSteps * 6);         // some phases in each step
  EXPECT_EQ(read["counts"]["M"], 8);                      // names, and the GEMM kernels of each run
  EXPECT_GE(read["counts"]["C"].get<int>(), 2 * kSteps);  // loss
  EXPECT_LT(read["overlap_us"].get<double>(), 200);       // between steps: clocks of phases and of the run
  std::ifstream file(path("trace.json"));
  const std::string text(std::istreambuf_iterator<char>(file), {});
  EXPECT_NE(text.find("GEMMs: " + multiplied_by(RecordingReader(recording()).runs().front().kernels)),
            std::string::npos);
}

TEST_F(Export, WeightsAreThoseOfTheCheckpoint) {
  const std::string checkpoint = kept_checkpoint(recording(), "first", {});
  const int tensors = export_weights(checkpoint, path("weights.safetensors"));
  const SafetensorsFile all(checkpoint), kept(path("weights.safetensors"));
  EXPECT_EQ(kept.tensors().size(), static_cast<std::size_t>(tensors));
  for (const TensorView& tensor : kept.tensors()) {
    EXPECT_FALSE(tensor.name.starts_with("moment") || tensor.name.starts_with("window"));
    EXPECT_TRUE(std::ranges::equal(tensor.bytes, all.at(tensor.name).bytes)) << tensor.name;
  }
  EXPECT_TRUE(kept.metadata().contains("config"));
  EXPECT_THROW(export_weights(path("weights.safetensors"), path("x")), std::runtime_error) << "no checkpoint";
  try {
    kept_checkpoint(recording(), {}, 12345);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("there are "), std::string::npos) << error.what();
  }
  if (!has_program("python3")) GTEST_SKIP() << "python3 is not installed";
  const Json read = read_by_python("safetensors", path("weights.safetensors"));
  EXPECT_EQ(read.size(), static_cast<std::size_t>(tensors) + 1);
  for (const TensorView& tensor : kept.tensors()) {
    double sum = 0;
    for (const float value : tensor.floats()) sum += static_cast<double>(value);
    EXPECT_NEAR(read[tensor.name]["sum"].get<double>(), sum, 1e-9 * (1 + std::abs(sum))) << tensor.name;
  }
}

// The programs as a user starts them, and the browser that reads the files.
class ExportProgram : public Export {
 protected:
  static Ran cli(const std::string& arguments) { return ran("'" MOESCOPE_CLI "' export " + arguments); }
  static std::string text_of(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // Returns the page after its scripts have run, without any network.
  static std::string dom(const std::string& file) {
    return ran("timeout 60 chromium --headless --no-sandbox --disable-gpu --allow-file-access-from-files "
               "--host-resolver-rules='MAP * ~NOTFOUND' --virtual-time-budget=4000 --user-data-dir='" +
               path("chromium") + "' --dump-dom 'file://" + file + "' 2>/dev/null")
        .out;
  }
};

TEST_F(ExportProgram, EveryFormIsWrittenFromTheCommandLine) {
  const std::string in = "'" + recording() + "' ";
  for (const std::string form : {"png", "svg", "csv"}) {
    const Ran result = cli(in + "--to " + form + " --panel \"expert load\" -o '" + path("load." + form) + "'");
    EXPECT_EQ(result.status, 0) << result.out;
  }
  EXPECT_TRUE(text_of(path("load.png")).starts_with("\x89PNG"));
  EXPECT_NE(text_of(path("load.svg")).find(">Expert load</text>"), std::string::npos);
  EXPECT_GT(std::ranges::count(text_of(path("load.csv")), '\n'), 4);
  for (const std::string form : {"jsonl", "trace", "safetensors", "html", "tensorboard"})
    EXPECT_EQ(cli(in + "--to " + form + " -o '" + path("out-" + form) + "'").status, 0) << form;
  EXPECT_EQ(cli(in + "--to svg --workspace Compare --size 1400x900 -o '" + path("compare.svg") + "'").status, 0);
  const Ran wrong = cli(in + "--to svg --panel nonsense -o x.svg");
  EXPECT_NE(wrong.status, 0);
  EXPECT_NE(wrong.out.find("overview: Expert load"), std::string::npos) << wrong.out;
  EXPECT_NE(cli(in + "--to pdf -o x").status, 0);
  EXPECT_NE(cli("/no/such/file --to png -o x").status, 0);
}

TEST_F(ExportProgram, SvgIsDrawnByAnotherProgram) {
  if (!has_program("rsvg-convert")) GTEST_SKIP() << "librsvg2-bin is not installed";
  ASSERT_EQ(cli("'" + recording() + "' --to svg --panel Loss --size 700x400 -o '" + path("loss.svg") + "'").status, 0);
  const Ran drawn = ran("rsvg-convert '" + path("loss.svg") + "' -o '" + path("loss.png") + "'");
  EXPECT_EQ(drawn.status, 0) << drawn.out;
  EXPECT_EQ(drawn.out, "");
  EXPECT_GT(fs::file_size(path("loss.png")), 5000u);
}

TEST_F(ExportProgram, ReportOpensInABrowserWithoutNetwork) {
  ASSERT_EQ(cli("'" + recording() + "' --to html -o '" + path("report.html") + "'").status, 0);
  const std::string page = text_of(path("report.html"));
  for (const char* outside : {"src=\"http", "href=\"http", "url(http", "@import", "<script", "<link"})
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  if (!has_program("chromium")) GTEST_SKIP() << "chromium is not installed";
  const std::string shown = dom(path("report.html"));
  for (const char* part : {"Results", "Figures", "Settings that differ", "precision.experts", "Findings",
                           "router.bias_update_rate", "a \"quoted\" note", "</svg>"})
    EXPECT_NE(shown.find(part), std::string::npos) << part;
}

TEST_F(ExportProgram, TraceIsParsedByABrowser) {
  if (!has_program("chromium")) GTEST_SKIP() << "chromium is not installed";
  ASSERT_TRUE(export_trace(recording(), path("browser.json")));
  std::ofstream(path("trace.html")) << R"(<!DOCTYPE html><p id="out">waiting</p><script>
    fetch("browser.json").then(r => r.json()).then(t => {
      const steps = t.traceEvents.filter(e => e.ph == "X" && e.cat == "step");
      document.getElementById("out").textContent =
        "steps " + steps.length + " ordered " + steps.every(s => s.dur > 0 && s.ts > -1e6);
    });</script>)";
  const std::string shown = dom(path("trace.html"));
  EXPECT_NE(shown.find("steps " + std::to_string(2 * kSteps) + " ordered true"), std::string::npos) << shown;
}

}  // namespace
}  // namespace moescope
