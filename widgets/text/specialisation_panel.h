// Use of a layer's experts by domain, or by kind of byte: lift over the expert's share of all copies of tokens. A click
// on a domain names its experts. On request the panel also shows what the model loses without each expert, by domain,
// and without several experts of every layer.
#pragma once

#include <QComboBox>
#include <QStackedWidget>

#include "core/frame/specialisation.h"
#include "widgets/panel/controls.h"
#include "widgets/panel/measured_experts.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/matrix_plot.h"
#include "widgets/text/expert_tables.h"

namespace moescope {

// Lift of the bytes that experts get: kinds of bytes by expert, and the bytes of one expert.
// Bytes of one expert as boxes with their glyphs, the most preferred first, coloured by lift.
class ByteStrip : public PlotFrame {
  Q_OBJECT

 public:
  using PlotFrame::PlotFrame;
  void setBytes(const QString& title, std::vector<TokensOfExpert> bytes) {
    title_ = title;
    bytes_ = std::move(bytes);
  }
  QSize minimumSizeHint() const override { return {120, 44}; }

 protected:
  QMargins margins() const override { return {6, withType(18), 6, 2}; }
  void paintData(QPainter& painter) override;
  QStringList readoutAt(QPoint position) const override;

 private:
  QSize boxSize() const;
  QString title_;
  std::vector<TokensOfExpert> bytes_;
};

class ByteAffinityView : public QWidget {
  Q_OBJECT

 public:
  explicit ByteAffinityView(Selection* selection, QWidget* parent = nullptr);
  ValueTable table() const;
  QStringList answers() const;  // which expert gets which bytes, from long to short; empty: no data
  const TelemetryFrame* frame() const { return frame_.get(); }  // frame of the shown counts; nullptr: none

 private:
  void refill();
  void refillStrip();
  void paintNumbers(QPainter& painter) const;
  QStringList describe(int row, int column) const;

  Selection* selection_;
  MatrixPlot* view_;
  ByteStrip* strip_;
  std::shared_ptr<const TelemetryFrame> frame_;
  std::vector<float> lift_;  // [class, expert]
};

class SpecialisationPanel : public Panel {
  Q_OBJECT

 public:
  explicit SpecialisationPanel(Selection* selection, QWidget* parent = nullptr);
  ValueTable table() const override;

  MeasureButton* measureButton() const { return measure_; }
  void showExperts(std::shared_ptr<const MeasuredExperts> measured);  // nullptr: not measured

 signals:
  // Requests a measurement at ascending steps, with the weights before each step. For a checkpoint the steps do not
  // matter.
  void removalRequested(int run, std::vector<std::int64_t> steps);

 protected:
  QString status() const override;
  Answer answer() const override;

 private:
  void makeButtons();
  bool removes() const;  // true if the panel shows figures of removed experts
  const MeasuredExperts::ByStep::value_type* measured() const { return atCursor(measured_, *selection_); }
  void showFigure();
  void showButtons();
  void refillRemoval();
  QStringList describeRemoval(int row, int column) const;
  Answer answerOfRemoval() const;
  void refill();
  void paintNumbers(QPainter& painter) const;
  const SpecialisationFrame* counts() const;  // counts of the shown layer; nullptr: none
  bool byBytes() const;
  std::vector<int> columnOrder(const SpecialisationFrame& table, const std::vector<float>& lift) const;
  int chosenRow() const;
  QStringList describe(int row, int column) const;
  QStringList countedDomains() const;
  void findCounts();

  QStackedWidget* stack_;
  MatrixPlot* view_;
  ByteAffinityView* bytes_;
  QComboBox* order_;
  QWidget* layer_ = nullptr;
  QComboBox* figure_ = nullptr;
  MeasureButton* measure_ = nullptr;
  QPushButton* over_training_ = nullptr;
  std::shared_ptr<const MeasuredExperts> measured_;
  ExpertGrid removal_;
  std::shared_ptr<const TelemetryFrame> frame_;
  QString one_domain_;  // domain of newer counts than those that are shown; empty: none
  std::vector<float> lift_, share_, base_;
  std::vector<int> columns_;  // expert of each column
  int domain_ = -1;           // clicked domain; -1: none
};

// Returns the table of a layer in a frame; of a frame with one table alone, that one; nullptr if there is none.
const SpecialisationFrame* specialisationOf(const TelemetryFrame* frame, int layer);
// Returns the newest counts of two domains or more of the selected layer up to the cursor; without such, the newest.
std::shared_ptr<const TelemetryFrame> countsOfDomains(const Selection& selection);
int onlyCountedLayer(
    const Selection& selection);  // the only layer with counts in a log; -1: there are several, or none
// Legend of the lift in the colours of utilisation: 1 neutral, blue below, orange above.
LegendScale liftLegend(bool dark);
QString liftText(float lift);  // text of a cell; empty: no value
QString domainName(const RunInfo& info, std::size_t domain);
std::size_t highestLift(const std::vector<float>& lift);  // index of the highest lift

}  // namespace moescope
