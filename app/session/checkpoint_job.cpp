#include "app/session/checkpoint_job.h"

#include <QDir>
#include <QFileInfo>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/checkpoints/checkpoint_run.h"
#include "core/recording/recording.h"
#include "core/tokenizer/tokenizer.h"
#include "widgets/plots/axis.h"

namespace moescope {

namespace {

// One piece a batch: a short text has several steps, and each has one domain.
constexpr int kSequences = 1;

Tokenizer tokenizerOf(const QString& folder) {
  return Tokenizer(QDir(folder).filePath("tokenizer.json").toStdString());
}

TextSources sourcesOf(const CheckpointTexts& request) {
  TextSources sources;
  for (const QString& path : request.files) sources.texts.push_back(path.toStdString());
  if (!request.prompt.trimmed().isEmpty()) sources.prompt = request.prompt.toStdString();
  return sources;
}

}  // namespace

bool isCheckpoint(const QString& path) {
  const QDir folder = checkpointFolder(path);
  return folder.exists("config.json") && !folder.entryList({"*.safetensors"}, QDir::Files).isEmpty() &&
         (QFileInfo(path).isDir() || QFileInfo(path).fileName() == "config.json");
}

QString checkpointFolder(const QString& path) {
  return QFileInfo(path).isDir() ? path : QFileInfo(path).path();
}

QString describeCheckpoint(const QString& folder) {
  const CheckpointModel model(folder.toStdString());
  tokenizerOf(folder);
  const CheckpointConfig& config = model.config();
  const int length = TextSources().length;
  return QString(
             "%1: %2 layers, %3 with %4 experts, top %5\n"
             "%6 parameters, %7 on disk; %8 of memory for %9 tokens\n"
             "about %10 s for 1,000 tokens (estimated from one layer of each kind)")
      .arg(architecture_name(config.architecture))
      .arg(config.layers.size())
      .arg(model.moe_layers().size())
      .arg(config.experts)
      .arg(config.router.config.top_k)
      .arg(formatCount(static_cast<double>(model.parameters())), formatBytes(static_cast<double>(model.stored_bytes())),
           formatBytes(static_cast<double>(model.working_bytes(kSequences * length))))
      .arg(length)
      .arg(1000 * model.measured_seconds_per_token(), 0, 'g', 2);
}

bool runCheckpoint(const CheckpointTexts& request, const QString& out, const std::function<bool(double)>& progress) {
  const CheckpointModel model(request.folder.toStdString());
  const Tokenizer tokenizer = tokenizerOf(request.folder);
  const TextSources sources = sourcesOf(request);
  const std::vector<LabelledText> texts = read_all(sources, &tokenizer);
  const std::string name = QDir(request.folder).dirName().toStdString();
  CheckpointRun run(model, texts, {request.folder.toStdString(), sources, kSequences, name, &tokenizer});
  RecordingWriter writer(out.toStdString(), Durable::when_finished);
  writer.add_run(run.info());
  writer.write(Marker{0, 0, kSettingsMarker, run.settings()});
  std::int64_t done = 0;
  for (bool goes_on = progress(0); goes_on && done < run.steps();) {
    TelemetryFrame step = run.step();
    goes_on = progress(static_cast<double>(++done) / static_cast<double>(run.steps()));
    if (!goes_on) run.show_specialisation(step);
    const auto frame = std::make_shared<const TelemetryFrame>(std::move(step));
    writer.write({&frame, 1});
  }
  writer.finish();
  return done > 0;
}

}  // namespace moescope
