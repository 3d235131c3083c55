// tests/data holds event files that another program wrote (tests/python/write_events.py documents how, and the values).
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <utility>

#include "core/frame/router_stats.h"
#include "core/logs/events/event_records.h"
#include "core/logs/file_kind.h"
#include "core/logs/log_readers.h"
#include "core/logs/open_runs.h"
#include "tests/support/event_bytes.h"
#include "tests/support/problem_of.h"
#include "tests/support/processor_time.h"

namespace moescope {
namespace {

const std::string kData = MOESCOPE_TEST_DATA "/data/";

std::vector<std::uint32_t> loads(int layer, int step) {
  std::vector<std::uint32_t> counts;
  for (int expert = 0; expert < 4; ++expert)
    counts.push_back(static_cast<std::uint32_t>(10 * (expert + 1) + layer + step));
  return counts;
}

TEST(EventRecords, ChecksumsAreThePublishedOnes) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);            // the check value of CRC-32C
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string bytes = framed_record("hello");
  EXPECT_TRUE(begins_with_record(bytes));
  std::string_view unread = bytes, record;
  EXPECT_EQ(take_record(unread, record), RecordState::whole);
  EXPECT_EQ(record, "hello");
  EXPECT_TRUE(unread.empty());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] ^= 1;
    unread = damaged;
    EXPECT_EQ(take_record(unread, record), i < kRecordHeaderBytes ? RecordState::bad_header : RecordState::bad_record);
    unread = std::string_view(bytes).substr(0, i);
    EXPECT_EQ(take_record(unread, record), RecordState::cut_off);
  }
}

TEST(ImportEvents, NeMoAutomodelsUtilizationIsRead) {
  const Imported imported = import_events(kData + "nemo.tfevents.1700000000.host");
  EXPECT_EQ(imported.bad.count(), 0) << imported.bad.text();
  ASSERT_EQ(imported.runs.size(), 1u);
  const History& history = *imported.runs[0];
  EXPECT_EQ(history.info().moe_layers, (std::vector<int>{0, 1}));
  EXPECT_EQ(history.info().n_experts, 4);
  ASSERT_EQ(history.steps(), (StepRange{0, 9}));
  for (int step = 0; step < 10; ++step) {
    const auto frame = history.frame_at(step);
    EXPECT_FLOAT_EQ(frame->ce_loss, 5 - 0.25f * static_cast<float>(step));
    for (int layer = 0; layer < 2; ++layer) {
      const auto expected_loads = loads(layer, step);
      const RouterFrame& router = frame->routers[static_cast<std::size_t>(layer)];
      EXPECT_FLOAT_EQ(router.cv, 0.25f * static_cast<float>(layer + 1)) << "what the file says counts";
      EXPECT_NEAR(router.max_vio, max_vio(expected_loads), 2e-4) << "what it does not say is computed";
      for (std::size_t e = 0; e < 4; ++e)
        EXPECT_NEAR(utilisation(router.tokens_per_expert, e), utilisation(expected_loads, e), 2e-4);
    }
    EXPECT_NEAR(frame->wall_s, step, 1e-6);
  }
}

TEST(ImportEvents, ADamagedRecordOfTorchTitanCostsItsValueAlone) {
  const Imported imported = import_events(kData + "titan.tfevents.1700000001.host");
  ASSERT_EQ(imported.bad.count(), 1);
  EXPECT_EQ(imported.bad.first()[0].number, 6) << "the version's record is the first";
  EXPECT_NE(imported.bad.first()[0].reason.find("checksum"), std::string::npos);
  EXPECT_STREQ(imported.bad.unit(), "record");
  const History& history = *imported.runs.at(0);
  EXPECT_EQ(history.info().moe_layers, (std::vector<int>{3, 5}));
  EXPECT_EQ(history.info().n_layers, 6);
  EXPECT_EQ(history.steps(), (StepRange{0, 9}));
  EXPECT_TRUE(is_missing(history.values(Metric::ce_loss, kWholeRun, {4, 4})[0])) << "its record was damaged";
  EXPECT_FLOAT_EQ(history.value_at(Metric::ce_loss, kWholeRun, 9), 1.5f);
  EXPECT_FLOAT_EQ(history.value_at(Metric::tokens_per_s, kWholeRun, 9), 1000);
  EXPECT_EQ(history.frame_at(7)->routers[1].tokens_per_expert, loads(1, 7));
}

TEST(ImportEvents, MegatronsLayersTensorsAndHistogramsAreRead) {
  const Imported imported = import_events(kData + "megatron.tfevents.1700000002.host");
  EXPECT_EQ(imported.bad.count(), 0) << imported.bad.text();
  const History& history = *imported.runs.at(0);
  for (int step = 0; step < 10; ++step) {
    const auto frame = history.frame_at(step);
    ASSERT_EQ(frame->step, step);
    EXPECT_FLOAT_EQ(frame->ce_loss, 7 - 0.125f * static_cast<float>(step));
    EXPECT_FLOAT_EQ(frame->aux_loss, 1.25f);
    for (int layer = 0; layer < 2; ++layer) {
      const RouterFrame& router = frame->routers[static_cast<std::size_t>(layer)];
      EXPECT_EQ(router.tokens_per_expert, loads(layer, step)) << (step % 2 ? "histogram" : "tensor");
      EXPECT_FLOAT_EQ(router.aux_loss, 1.0f + static_cast<float>(layer));
      EXPECT_FLOAT_EQ(router.z_loss, 0.125f);
    }
  }
}

TEST(ImportEvents, FoldersAreRunsAndAMappingFileBesideThemCounts) {
  const auto folder = std::filesystem::temp_directory_path() / "moescope_events";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder / "a");
  std::filesystem::create_directories(folder / "b");
  std::filesystem::copy(kData + "nemo.tfevents.1700000000.host", folder / "a");
  std::filesystem::copy(kData + "megatron.tfevents.1700000002.host", folder / "b");
  const OpenedRuns opened = open_runs({folder.string()}, {}, 4);
  ASSERT_EQ(opened.histories.size(), 2u);
  EXPECT_EQ(opened.histories[0]->info().name, "a");
  EXPECT_EQ(opened.histories[1]->info().name, "b");
  EXPECT_EQ(opened.histories[1]->info().run, 1);
  std::ofstream(folder / "b" / "moescope-tags.toml")
      << "layer_offset = 10\n[[tag]]\npattern = \"moe/z_loss_layer_{layer}\"\nmeans = \"z_loss\"\nscale = 2.0\n";
  const auto mapped = import_events((folder / "b").string()).runs.at(0);
  EXPECT_FLOAT_EQ(mapped->value_at(Metric::router_z_loss, 11, 3), 0.25f);
  EXPECT_FALSE(is_missing(mapped->value_at(Metric::ce_loss, kWholeRun, 3))) << "the built-in names stay";
  std::ofstream(folder / "b" / "moescope-tags.toml") << "[[tag]]\npattern = \"lm loss\"\nmeans = \"ignored\"\n";
  EXPECT_TRUE(is_missing(import_events((folder / "b").string()).runs.at(0)->value_at(Metric::ce_loss, kWholeRun, 3)));
  std::filesystem::remove_all(folder);
}

TEST(ImportEvents, WideBucketsAndPartsOfALayerAreTold) {
  const std::string bytes = [] {
    std::ifstream file(kData + "nemo.tfevents.1700000000.host", std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  }();
  const auto path = std::filesystem::temp_directory_path() / ("moescope_cut_" + std::to_string(::getpid()));
  for (std::size_t cut = 0; cut < bytes.size(); cut += 7) {
    write_bytes(path, bytes.substr(0, cut));
    try {
      EXPECT_EQ(import_events(path.string()).bad.count(), 0) << "a file that is still being written";
    } catch (const std::runtime_error& none) {
      EXPECT_EQ(std::string(none.what()).find("could not be read"), std::string::npos) << none.what();
    }
  }
  std::filesystem::remove(path);
}

class EventFiles : public testing::Test {
 protected:
  EventFiles() : root_(std::filesystem::temp_directory_path() / ("moescope_tb_" + std::to_string(::getpid()))) {}
  ~EventFiles() override { std::filesystem::remove_all(root_); }
  void put(const std::string& name, const std::string& bytes) const { write_bytes(root_ / name, bytes); }
  Imported read() const { return import_events(root_.string()); }
  std::shared_ptr<History> only() const { return read().runs.at(0); }
  static std::string losses(int first, int last, int interval, float value) {
    std::string bytes;
    for (int step = first; step <= last; step += interval)
      bytes += tb_summary(step, 1e9 + step, tb_scalar("train/loss", value) + tb_scalar("moe/layer_1/cv", 0.5f));
    return bytes;
  }
  static float loss(const History& history, std::int64_t step) {
    return history.values(Metric::ce_loss, kWholeRun, {step, step})[0];
  }
  static bool notes_say(const History& history, const std::string& words) {
    for (const Marker& marker : history.markers())
      if (marker.kind == "event" && marker.text.find(words) != std::string::npos) return true;
    return false;
  }
  const std::filesystem::path root_;
};

TEST_F(EventFiles, ASessionThatStartsDropsTheStepsOfTheAttemptBefore) {
  put("events.out.tfevents.1", tb_session_start(0, 1) + losses(0, 150, 10, 9));
  put("events.out.tfevents.2", tb_session_start(101, 2) + losses(110, 120, 10, 4));
  const auto run = only();
  EXPECT_EQ(run->steps(), (StepRange{0, 120}));
  EXPECT_EQ(loss(*run, 100), 9.0f);
  EXPECT_EQ(loss(*run, 110), 4.0f);
  EXPECT_TRUE(notes_say(*run, "continues from step 101: dropped steps 101 to 150 of an earlier attempt"));
  put("events.out.tfevents.3", tb_session_start(50, 3));  // an attempt that logged nothing
  EXPECT_EQ(only()->steps(), (StepRange{0, 40}));
}

TEST_F(EventFiles, OverlappingFilesAreARestartWithoutItsRecord) {
  put("events.out.tfevents.1", losses(0, 150, 10, 9));
  put("events.out.tfevents.2", losses(110, 120, 10, 4));
  put("events.out.tfevents.3", tb_summary(50, 1, tb_scalar("eval/loss", 7)));
  const auto run = only();
  EXPECT_EQ(run->steps(), (StepRange{0, 120}));
  EXPECT_EQ(loss(*run, 120), 4.0f);
  EXPECT_EQ(run->values(Metric::val_loss, kWholeRun, {50, 50})[0], 7.0f) << "another key that comes late";
}

TEST_F(EventFiles, MeansOfTheWholeTrainingBelongToNoStep) {
  put("events.out.tfevents.1", tb_summary(10, 1, tb_scalar("loss", 3)) + tb_summary(20, 2, tb_scalar("loss", 2)) +
                                   tb_summary(20, 3, tb_scalar("eval_loss", 2.5f)) +
                                   tb_summary(30, 4, tb_scalar("train_runtime", 12)) +
                                   tb_summary(30, 4, tb_scalar("train_loss", 2.25f)));
  const auto run = only();
  EXPECT_EQ(run->steps(), (StepRange{10, 20}));
  EXPECT_EQ(run->values(Metric::val_loss, kWholeRun, {20, 20})[0], 2.5f);
  EXPECT_TRUE(notes_say(*run, "\"train_loss\" is not shown: \"loss\" has the same meaning"));
}

TEST_F(EventFiles, TheBetterOfTwoNamesReplacesWhatTheOtherSaid) {
  put("events.out.tfevents.1", tb_summary(1, 1, tb_scalar("train_loss", 9)) + tb_summary(1, 1, tb_scalar("loss", 3)) +
                                   tb_summary(2, 2, tb_scalar("loss", 2)));
  EXPECT_EQ(loss(*only(), 1), 3.0f);
}

// "loss" would be shown in place of "train/loss" if it had a value.
TEST_F(EventFiles, ATagWithoutValuesHidesNoOther) {
  put("events.out.tfevents.1", tb_summary(0, 1, tb_tensor("loss", {1}, {9}, "text")) +
                                   tb_summary(0, 1, tb_scalar("train/loss", 3)) +
                                   tb_summary(1, 2, tb_tensor("loss", {1}, {9}, "text")));
  const Imported log = read();
  EXPECT_EQ(loss(*log.runs.at(0), 0), 3.0f);
  EXPECT_EQ(log.bad.count(), 2);
  EXPECT_TRUE(log.remarks.empty()) << log.remarks[0];
}

TEST_F(EventFiles, ALoadOfSomeExpertsIsToldWithItsStep) {
  std::string bytes;
  for (int step = 0; step < 3; ++step)
    for (int expert = 0; expert < 4 - step; ++expert)
      bytes += tb_summary(step, 1, tb_scalar("moe/layer_2/expert_" + std::to_string(expert) + "/load", 5));
  put("events.out.tfevents.1", bytes);
  EXPECT_EQ(read().remarks, std::vector<std::string>{"step 1, layer 2: loads without values for all 4 experts are not "
                                                     "shown (and 1 more such places)"});
}

TEST_F(EventFiles, WhatIsNoNumberIsNoValue) {
  const auto image = pb_bytes(1, pb_bytes(1, "loss") + pb_bytes(4, "pixels"));
  const auto curve = tb_tensor("tokens_per_expert", {2, 3}, {1}, "pr_curves");
  put("events.out.tfevents.1", tb_summary(0, 1, image) + tb_summary(0, 1, curve) + losses(1, 3, 1, 2));
  const Imported imported = read();
  EXPECT_EQ(imported.runs.at(0)->steps(), (StepRange{1, 3}));
  EXPECT_NE(imported.bad.text().find("neither a number"), std::string::npos) << imported.bad.text();
  EXPECT_NE(imported.bad.text().find("pr_curves"), std::string::npos) << imported.bad.text();
}

// TensorFlow 2 writes a histogram as a tensor of buckets, and names its plugin only with the first value of a tag.
TEST_F(EventFiles, TensorsOfThePluginHistogramsAreBuckets) {
  put("events.out.tfevents.1",
      tb_summary(0, 1, tb_tensor("tokens_per_expert", {3, 3}, {0, 1, 50, 1, 2, 0, 2, 3, 70}, "histograms")) +
          tb_summary(1, 1, tb_tensor("tokens_per_expert", {2, 3}, {0, 1, 60, 2, 2, 80})) +
          tb_summary(2, 1, tb_tensor("tokens_per_expert", {1, 3}, {0, 3, 6})));
  const Imported imported = read();
  const History& run = *imported.runs.at(0);
  EXPECT_EQ(run.info().n_experts, 3);
  EXPECT_EQ(run.frame_at(1)->routers.at(0).tokens_per_expert, (std::vector<std::uint32_t>{60, 0, 80}));
  EXPECT_NE(imported.bad.text().find("more than one expert"), std::string::npos) << imported.bad.text();
}

TEST_F(EventFiles, TokensAreNeverNegative) {
  put("events.out.tfevents.1", tb_summary(0, 1, tb_tensor("tokens_per_expert", {2}, {4, 3})) +
                                   tb_summary(1, 1, tb_tensor("tokens_per_expert", {2}, {0.5f, 1.5f})) +
                                   tb_summary(2, 1, tb_tensor("tokens_per_expert", {2}, {-1, 3})));
  const Imported imported = read();
  EXPECT_EQ(imported.runs.at(0)->steps(), (StepRange{0, 1})) << "0.5 and 1.5 are shares";
  EXPECT_EQ(imported.bad.count(), 1);
  EXPECT_NE(imported.bad.text().find("-1 is no load"), std::string::npos) << imported.bad.text();
}

TEST_F(EventFiles, SmallFilesDoNotFillTheMemory) {
  const auto refused = [&](const std::string& values, int steps) {
    std::string bytes;
    for (int step = 0; step < steps; ++step) bytes += tb_summary(step, 1, values);
    put("events.out.tfevents.1", bytes);
    return problem_of([&] { only(); }).find("more than can be shown") != std::string::npos;
  };
  EXPECT_TRUE(refused(tb_tensor("tokens_per_expert", {16, 65536}, {1}), 1000));
  EXPECT_TRUE(refused(tb_scalar("tokens_per_expert/layer_1/expert_65535", 1), 3000));
  const auto histogram = pb_bytes(5, pb_double(1, 65535) + pb_double(2, 65535) + pb_double(3, 2e6) +
                                         pb_double(4, 65535) + pb_double(6, 65535) + pb_double(7, 2e6));
  EXPECT_TRUE(refused(pb_bytes(1, pb_bytes(1, "tokens_per_expert/layer_1") + histogram), 3000));
  std::vector<std::uint64_t> ones(1'000'000, 1);
  put("events.out.tfevents.1", losses(0, 3, 1, 2) + tb_summary(4, 1, tb_tensor("tokens_per_expert", ones, {1})));
  EXPECT_NE(read().bad.text().find("too many dimensions"), std::string::npos);
}

TEST_F(EventFiles, OneFileThatCannotBeReadDoesNotRefuseTheOthers) {
  put("events.out.tfevents.1", losses(0, 3, 1, 2));
  std::filesystem::create_symlink("loop_b", root_ / "loop_a");
  std::filesystem::create_symlink("loop_a", root_ / "loop_b");
  std::filesystem::create_symlink("events.out.tfevents.9", root_ / "events.out.tfevents.9");
  EXPECT_EQ(only()->steps(), (StepRange{0, 3}));
  put("events.out.tfevents.2", "no record at all, which is told with the file's name");
  const Imported imported = read();
  EXPECT_NE(imported.bad.text().find("record 1: of events.out.tfevents.2: "), std::string::npos) << imported.bad.text();
}

TEST_F(EventFiles, OneOfSeveralRunsCanBeChosen) {
  for (const char* name : {"a", "b", "c"}) put(std::string(name) + "/events.out.tfevents.1", losses(0, 3, 1, 2));
  EXPECT_NE(problem_of([&] { open_runs({root_.string()}, {}, 2); }).find("--run NAME chooses one of: a, b, c"),
            std::string::npos);
  ImportOptions options;
  options.only = {"b"};
  const OpenedRuns opened = open_runs({root_.string()}, options, 2);
  ASSERT_EQ(opened.histories.size(), 1u);
  EXPECT_EQ(opened.histories[0]->info().name, "b");
  options.only = {"d"};
  EXPECT_NE(problem_of([&] { open_runs({root_.string()}, options, 2); }).find("no run named d. There are: a, b, c"),
            std::string::npos);
}

// NeMo Automodel numbers layers in the order of their names as texts.
TEST_F(EventFiles, LayersThatAreCountedAsTextsGetTheirNumbers) {
  const auto values = [] {
    std::string bytes;
    for (int place = 0; place < 12; ++place)
      bytes += tb_scalar("moe/layer_" + std::to_string(place) + "/cv", static_cast<float>(place));
    return bytes;
  }();
  put("events.out.tfevents.1", tb_summary(0, 1, values));
  const auto run = only();
  const auto cv = [](const History& history, int layer) { return history.value_at(Metric::cv, layer, 0); };
  for (const auto& [layer, place] : {std::pair{0, 0}, {1, 1}, {10, 2}, {11, 3}, {2, 4}, {9, 11}})
    EXPECT_EQ(cv(*run, layer), static_cast<float>(place)) << layer;
  EXPECT_TRUE(notes_say(*run, "layers 0 to 11 of the model"));
  std::ofstream(root_ / "moescope-tags.toml") << "layer_offset = 3\n[[tag]]\npattern = \"moe/layer_{layer}/cv\"\n"
                                                 "means = \"cv\"\nlayers = \"as text\"\n";
  const auto moved = only();  // 10, 11, 12, 13, 14, 3, 4, ...
  EXPECT_EQ(cv(*moved, 10), 0.0f);
  EXPECT_EQ(cv(*moved, 3), 5.0f);
}

TEST_F(EventFiles, UnknownTagsAreTold) {
  put("events.out.tfevents.1", tb_summary(0, 1, tb_scalar("loss", 3) + tb_scalar("my/thing", 1) + tb_scalar("gpu", 2)));
  EXPECT_EQ(read().remarks, (std::vector<std::string>{"not shown: gpu, my/thing"}));
}

TEST_F(EventFiles, ARunInTheFolderItselfHasItsName) {
  put("events.out.tfevents.1", losses(0, 3, 1, 2));
  put("hparams/events.out.tfevents.1", tb_summary(0, 1, tb_scalar("hp_metric", 1)));
  EXPECT_EQ(only()->info().name, root_.filename().string());
}

// "latest" is a link to a folder that is found without it, too. A link that leads back is not followed again.
TEST_F(EventFiles, LinksToFoldersAreFollowedOnce) {
  put("run/events.out.tfevents.1", losses(0, 3, 1, 2));
  std::filesystem::create_directory_symlink("run", root_ / "latest");
  std::filesystem::create_directory_symlink(root_, root_ / "run/back");
  std::filesystem::create_directory_symlink(root_, root_ / "loop");
  EXPECT_EQ(file_kind(root_.string()), FileKind::event_file);
  EXPECT_EQ(only()->steps(), (StepRange{0, 3}));
}

TEST_F(EventFiles, LinksOutOfTheFolderAreNotFollowedButNamed) {
  put("elsewhere/events.out.tfevents.1", losses(0, 9, 1, 2));
  put("logs/run/events.out.tfevents.1", losses(0, 3, 1, 2));
  std::filesystem::create_directory_symlink("../elsewhere", root_ / "logs/other");
  std::filesystem::create_symlink("../../elsewhere/events.out.tfevents.1", root_ / "logs/run/events.out.tfevents.2");
  const std::string logs = (root_ / "logs").string();
  const OpenedRuns opened = open_runs({logs}, {}, 4);
  ASSERT_EQ(opened.histories.size(), 1u);
  EXPECT_EQ(opened.histories[0]->steps(), (StepRange{0, 3}));
  const std::string reason = " was not read: it is a link that leads out of the folder";
  for (const char* link : {": other", ": run/events.out.tfevents.2"})
    EXPECT_EQ(std::ranges::count(opened.remarks, logs + link + reason), 1) << link;
}

TEST(ImportEvents, WholeNumbersOfEveryWidth) {
  const auto path = std::filesystem::temp_directory_path() / "moescope.tfevents.widths";
  struct Width {
    std::uint64_t type;
    int bytes;
  };
  for (const auto& [type, bytes] : {Width{5, 2}, Width{17, 2}, Width{3, 4}, Width{22, 4}, Width{23, 8}, Width{9, 8}}) {
    std::string content;
    for (const char count : {4, 5, 6}) content += count + std::string(static_cast<std::size_t>(bytes) - 1, '\0');
    const std::string tensor = pb_number(1, type) + tb_shape({3}) + pb_bytes(4, content);
    write_bytes(path, tb_summary(0, 1, pb_bytes(1, pb_bytes(1, "layer_1/tokens_per_expert") + pb_bytes(8, tensor))));
    const Imported imported = import_events(path.string());
    EXPECT_EQ(imported.bad.count(), 0) << imported.bad.text();
    EXPECT_EQ(imported.runs.at(0)->frame_at(0)->routers.at(0).tokens_per_expert, (std::vector<std::uint32_t>{4, 5, 6}))
        << type;
  }
  std::filesystem::remove(path);
}

// A tensor with one value can claim a million equal values.
TEST(ImportEvents, ASmallFileThatClaimsManyValuesEndsSoon) {
  const auto path = std::filesystem::temp_directory_path() / "moescope.tfevents.claims";
  for (const int steps : {1, 2}) {  // one step again and again; two steps by turns, which are restarts
    std::string bytes;
    for (int i = 0; i < 1400; ++i) bytes += tb_summary(i % steps, 1, tb_tensor("tokens_per_expert", {16, 65536}, {1}));
    write_bytes(path, bytes);
    const double begin = processor_seconds();
    EXPECT_NE(problem_of([&] { import_events(path.string()); }).find("more than can be shown"), std::string::npos);
    EXPECT_LT(processor_seconds() - begin, 20) << "minutes without the limit";
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace moescope
