// tests/data holds event files that another program wrote (tests/python/write_events.py says how and what).
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "core/files/event_records.h"
#include "core/files/import_events.h"
#include "core/files/open_runs.h"
#include "core/telemetry/frame/router_stats.h"

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
  std::string_view rest = bytes, record;
  EXPECT_EQ(take_record(rest, record), RecordState::whole);
  EXPECT_EQ(record, "hello");
  EXPECT_TRUE(rest.empty());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] ^= 1;
    rest = damaged;
    EXPECT_EQ(take_record(rest, record), i < kRecordHeaderBytes ? RecordState::bad_header : RecordState::bad_record);
    rest = std::string_view(bytes).substr(0, i);
    EXPECT_EQ(take_record(rest, record), RecordState::cut_off);
  }
}

TEST(ImportEvents, NeMoAutomodelsUtilization) {
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
      const auto wanted = loads(layer, step);
      const RouterFrame& router = frame->routers[static_cast<std::size_t>(layer)];
      EXPECT_FLOAT_EQ(router.cv, 0.25f * static_cast<float>(layer + 1)) << "what the file says counts";
      EXPECT_NEAR(router.max_vio, max_vio(wanted), 2e-4) << "what it does not say is computed";
      for (std::size_t e = 0; e < 4; ++e)
        EXPECT_NEAR(utilisation(router.tokens_per_expert, e), utilisation(wanted, e), 2e-4);
    }
    EXPECT_NEAR(frame->wall_s, step, 1e-6);
  }
}

TEST(ImportEvents, TorchTitansBuffersAndADamagedRecord) {
  const Imported imported = import_events(kData + "titan.tfevents.1700000001.host");
  ASSERT_EQ(imported.bad.count(), 1);
  EXPECT_EQ(imported.bad.first()[0].number, 6) << "the version's record is the first";
  EXPECT_NE(imported.bad.first()[0].why.find("checksum"), std::string::npos);
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

TEST(ImportEvents, MegatronsLayersTensorsAndHistograms) {
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
  EXPECT_EQ(mapped->info().moe_layers, (std::vector<int>{10, 11}));
  EXPECT_FLOAT_EQ(mapped->value_at(Metric::router_z_loss, 11, 3), 0.25f);
  EXPECT_TRUE(is_missing(mapped->value_at(Metric::ce_loss, kWholeRun, 3)));
  std::ofstream(folder / "b" / "moescope-tags.toml") << "[[tag]]\npattern = \"nothing\"\nmeans = \"lr\"\n";
  try {
    import_events((folder / "b").string());
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("\"lm loss\""), std::string::npos) << error.what();
  }
  std::filesystem::remove_all(folder);
}

TEST(ImportEvents, WideBucketsAndPartsOfALayerAreTold) {
  const std::string bytes = [] {
    std::ifstream file(kData + "nemo.tfevents.1700000000.host", std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  }();
  for (std::size_t cut = 0; cut < bytes.size(); cut += 7) {
    BadLines bad;
    read_event_bytes(std::string_view(bytes).substr(0, cut), bad);
    EXPECT_EQ(bad.count(), 0) << "a file that is still being written";
  }
}

}  // namespace
}  // namespace moescope
