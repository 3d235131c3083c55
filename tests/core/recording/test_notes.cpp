#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "core/files/sqlite.h"
#include "core/frame/frame.h"
#include "core/recording/marks.h"
#include "core/recording/recording.h"
#include "core/recording/schema.h"
#include "core/training/engine/live_runs.h"
#include "tests/support/sample_frames.h"
#include "tests/support/small_run.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

class Notes : public testing::Test {
 protected:
  Notes() { fs::create_directories(folder_); }
  ~Notes() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

 private:
  fs::path folder_ = fs::temp_directory_path() / ("moescope_notes_" + std::to_string(::getpid()));
};

void record(const std::string& path, int steps) {
  std::mt19937 rng(1);
  RecordingWriter writer(path);
  writer.add_run(sample_info({}));
  std::vector<std::shared_ptr<const TelemetryFrame>> frames;
  for (int step = 0; step < steps; ++step)
    frames.push_back(std::make_shared<const TelemetryFrame>(sample_frame(step, {}, rng)));
  writer.write(frames);
}

std::vector<std::pair<std::int64_t, std::string>> notes_in(const std::string& path, int run = 0) {
  std::vector<std::pair<std::int64_t, std::string>> found;
  for (const Marker& marker : RecordingReader(path).load(run)->markers())
    if (marker.kind == kNoteKind) found.emplace_back(marker.step, marker.text);
  return found;
}

TEST_F(Notes, NewDataReplacesSameKindAndStep) {
  record(path("data.moescope"), 5);
  write_marker(path("data.moescope"), {0, 2, kNoteKind, "stays"});
  write_marker(path("data.moescope"), {0, 4, kOperandsMarker, "first"});
  write_marker(path("data.moescope"), {0, 4, kExpertsMarker, "another kind"});
  write_marker(path("data.moescope"), {0, 4, kOperandsMarker, "second"});
  write_marker(path("data.moescope"), {0, 2, kExpertsMarker, "another step"});
  std::vector<std::string> texts;
  const auto history = RecordingReader(path("data.moescope")).load(0);
  for (const Marker& marker : history->markers()) texts.push_back(marker.text);
  EXPECT_EQ(texts, (std::vector<std::string>{"stays", "another kind", "second", "another step"}));
  EXPECT_EQ(marks_of(*history).size(), 1u) << "data are no marks on a time axis";
}

using Found = std::vector<std::pair<std::int64_t, std::string>>;

TEST_F(Notes, AreWrittenEditedAndDeletedInARecording) {
  record(path("r.moescope"), 6);
  write_marker(path("r.moescope"), {0, 4, kNoteKind, "late"});
  write_marker(path("r.moescope"), {0, 1, kNoteKind, "it isn't; 'quoted'"});
  write_marker(path("r.moescope"), {0, 4, kNoteKind, "later"});
  EXPECT_EQ(notes_in(path("r.moescope")), (Found{{1, "it isn't; 'quoted'"}, {4, "later"}}));
  write_marker(path("r.moescope"), {0, 1, kNoteKind, ""});
  EXPECT_EQ(notes_in(path("r.moescope")), (Found{{4, "later"}}));
}

TEST_F(Notes, LeaveOtherMarkersAlone) {
  record(path("r.moescope"), 6);
  {
    Connection file(path("r.moescope"), SQLITE_OPEN_READWRITE);
    file.execute("INSERT INTO marker (run, step, kind, text) VALUES (0, 4, 'change', 'optimizer.lr 1 -> 2')");
  }
  write_marker(path("r.moescope"), {0, 4, kNoteKind, "why"});
  write_marker(path("r.moescope"), {0, 4, kNoteKind, ""});
  const auto markers = RecordingReader(path("r.moescope")).load(0)->markers();
  ASSERT_EQ(markers.size(), 1u);
  EXPECT_EQ(markers[0].kind, "change");
}

TEST_F(Notes, RefusedByOtherFiles) {
  std::ofstream(path("log.jsonl")) << "{}\n";
  EXPECT_THROW(write_marker(path("log.jsonl"), {0, 0, kNoteKind, "x"}), std::runtime_error);
  EXPECT_THROW(write_marker(path("absent"), {0, 0, kNoteKind, "x"}), std::runtime_error);
  EXPECT_FALSE(fs::exists(path("absent")));
}

TEST_F(Notes, OfAModelInTrainingAreInHistoryAndRecording) {
  LiveRuns live({small_run()}, path("r.moescope"));
  live.run_until(4);
  while (live.status().running) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  live.pin({0, 1, kNoteKind, "first"});
  live.pin({0, 3, kNoteKind, "gone"});
  live.pin({0, 1, kNoteKind, "second"});
  live.pin({0, 3, kNoteKind, ""});
  live.flush();
  EXPECT_EQ(note_at(*live.histories()[0], 1), "second");
  EXPECT_EQ(note_at(*live.histories()[0], 3), "");
  EXPECT_EQ(notes_in(path("r.moescope")), (Found{{1, "second"}}));
}

// One program trains and records; in another, a person reads the same recording.
TEST_F(Notes, CanBePinnedWhileAnotherConnectionRecords) {
  std::mt19937 rng(1);
  RecordingWriter writer(path("r.moescope"));
  writer.add_run(sample_info({}));
  for (int step = 0; step < 5; ++step) {
    const auto frame = std::make_shared<const TelemetryFrame>(sample_frame(step, {}, rng));
    writer.write(std::span(&frame, 1));
    write_marker(path("r.moescope"), {0, step, kNoteKind, "n" + std::to_string(step)});
  }
  EXPECT_EQ(notes_in(path("r.moescope")).size(), 5u);
  EXPECT_EQ(RecordingReader(path("r.moescope")).load(0)->steps().size(), 5);
}

// --- marks: what was done, in a few words ---

std::vector<std::string> titles(const History& history) {
  std::vector<std::string> found;
  for (const Mark& mark : marks_of(history)) found.push_back(mark.title);
  return found;
}

TEST(Marks, TextNamesTheAction) {
  RunInfo info;
  info.config_toml = "[router]\nkilled_experts = \"3:1\"\npinned_bias = \"\"\n";
  History history(info);
  const auto change = [&](int step, const char* key, const char* before, const char* value) {
    history.append(change_marker(0, step, key, before, value));
  };
  change(10, "router.killed_experts", "3:1", "1:5, 3:1");
  change(20, "router.pinned_bias", "", "*:2=1");
  change(30, "router.killed_experts", "1:5, 3:1", "1:5");
  change(40, "router.pinned_bias", "*:2=1", "2:2=-0.5, 2:3=1");
  change(50, "router.pinned_bias", "2:2=-0.5, 2:3=1", "");
  change(60, "router.bias_update_rate", "0.001", "0.01");
  change(70, "router.frozen", "false", "true");
  change(80, "router.killed_experts", "1:5", "1:5, 1:6, 1:7, 1:8, 1:9");
  history.append(Marker{0, 80, "event", "checkpoint kept"});
  change(85, "precision.experts", "mxfp8_rceil", "mxfp8_floor");
  history.append(Marker{0, 90, kNoteKind, "look here"});
  history.append(Marker{0, 0, kSettingsMarker, "{}"});
  EXPECT_EQ(titles(history),
            (std::vector<std::string>{"kill 1:5", "bias of expert 2 = 1", "revive 3:1",
                                      "bias of 2:2 = -0.5, 2:3 = 1; release bias of expert 2",
                                      "release bias of 2:2, 2:3", "Bias update rate: 0.01", "freeze the router",
                                      "kill 4 experts", "Routed experts: MXFP8, scales rounded down", "look here"}));
  EXPECT_EQ(marks_of(history)[0].text, "router.killed_experts 3:1 -> 1:5, 3:1");
}

}  // namespace
}  // namespace moescope
