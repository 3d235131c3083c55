// Tables of measurements on the experts of a model (core/checkpoints/ablation): the change of the loss without each
// expert of a layer, by domain; the change without several experts of every layer; and the similarity of the experts of
// a layer.
#pragma once

#include <QPushButton>
#include <QString>
#include <QStringList>
#include <cstdint>
#include <vector>

#include "core/files/text/value_table.h"
#include "widgets/panel/measured_experts.h"
#include "widgets/plots/color_scale.h"

namespace moescope {

// A button that starts a measurement and cancels it while it runs, and the texts about the measurement.
class MeasureButton : public QPushButton {
  Q_OBJECT

 public:
  explicit MeasureButton(const QString& tool_tip, QWidget* parent) : QPushButton("Measure", parent) {
    setToolTip(tool_tip);
    hide();
    connect(this, &QPushButton::clicked, this, [this] { busy() ? emit cancelled() : emit requested(); });
  }
  void showProgress(const QString& progress) { set(progress, {}); }
  void showRefused(const QString& reason) { set({}, reason); }
  void showDone() { showProgress({}); }
  bool busy() const { return !progress_.isEmpty(); }
  const QString& progress() const { return progress_; }  // empty: no measurement runs
  const QString& refused() const { return refused_; }    // why the last measurement failed or was cancelled; else empty

 signals:
  void requested();
  void cancelled();
  void changed();  // the texts have changed

 private:
  void set(const QString& progress, const QString& refused) {
    progress_ = progress;
    refused_ = refused;
    setText(busy() ? QString("Cancel") : QString("Measure"));
    emit changed();
  }

  QString progress_, refused_;
};

struct ExpertGrid {
  QStringList rows{}, columns{};
  QString row_title{}, column_title{};
  std::vector<FigureOfPieces> cells{};  // row by row; NaN: not measured
  QString unit = "nats/token";
  double least_scale = 0;  // smallest absolute value at which the colours end

  const FigureOfPieces& cell(int row, int column) const { return cells[row * columns.size() + column]; }
  double largest() const;  // absolute value at which the colours end
  std::vector<std::uint8_t> codes() const;
  LegendScale legend(bool dark) const;
};

// Changes of the loss. Columns are experts 0, 1, ...; the first row is for all text.
ExpertGrid costsByDomain(const ExpertScan& scan, int layer);
ExpertGrid prunedModels(const ExpertScan& scan);
ExpertGrid similarExperts(const LayerSimilarity& layer, const std::vector<int>& order);  // the diagonal is NaN

// Answers to the question of a panel, from long to short.
QStringList costAnswers(const ExpertScan& scan);
QStringList pruningAnswers(const ExpertScan& scan);
QStringList similarityAnswers(const LayerSimilarity& layer);
ValueTable costsTable(const MeasuredExperts::ByStep& scans);
ValueTable pruningTable(const MeasuredExperts::ByStep& scans);
ValueTable similarityTable(const MeasuredSimilarity::ByStep& similarities);
QString cosineText(const FigureOfPieces& cosine);  // "0.412 \u00b1 0.021"

}  // namespace moescope
