// A panel: header row (name, kind of numbers, state, controls, "?") over one or more plots; controls that do not fit
// into the header get rows of their own. The window docks it and asks it for its picture (QWidget::grab), its table and
// its explanation.
#pragma once

#include <QHBoxLayout>
#include <QLabel>
#include <QToolButton>
#include <QVBoxLayout>
#include <QVariantMap>
#include <QWidget>
#include <optional>
#include <vector>

#include "core/telemetry/explain/explain.h"
#include "core/telemetry/frame/metrics.h"
#include "widgets/plots/plot_frame.h"
#include "widgets/selection/selection.h"

namespace moescope {

class Panel : public QWidget {
  Q_OBJECT

 public:
  Panel(Selection* selection, const QString& title, Provenance provenance, QWidget* parent = nullptr);

  const QString& title() const { return title_; }
  virtual QString csv() const = 0;      // what is shown, after a header with units
  virtual QString explain() const = 0;  // rich text: what it shows, formulas, sources, how to read it
  std::optional<FigureTarget> figureUnder(QPoint position) const;  // global position
  // Opens the explain card of the figure there, or of the whole panel if there is no figure (global position).
  void explainAt(QPoint position);
  // The figure shown at a position of a child widget; by default asks plots and tiles.
  virtual std::optional<FigureTarget> figureAt(QWidget* child, QPoint position) const;
  // Choices of this panel that survive a restart.
  virtual QVariantMap saveState() const { return {}; }
  virtual void restoreState(const QVariantMap&) {}

  void setTitleShown(bool shown);  // off if the dock already shows it
  // For exported pictures: the header's text ("measured, step 1,234") with the settings of its controls, and the area
  // below the header.
  QString caption() const;
  QRect bodyRect() const;
  double lastPaintMs() const;  // sum over the plots
  QSize minimumSizeHint() const override { return {300, 160}; }
  QSize sizeHint() const override { return {460, 260}; }

 signals:
  void readoutChanged(const QString& text);  // for the status bar
  void knobRequested(const QString& key);    // from an explain card

 protected:
  // Which value of a metric this panel shows now, for the cards of explain(). By default the chosen layer, expert and
  // tensor at the cursor's step; of the whole run for metrics without layers.
  virtual FigureTarget target(const MetricInfo& info) const;
  // Cards with the present values; inside panels they hide the functions of metric_text.h of the same name.
  QString metricCard(const MetricInfo& info) const;
  QString metricCards(std::initializer_list<FigureKey> figures) const;
  // The kind of the numbers shown, for panels of a run depending on it; none while there is nothing to have a kind,
  // since what is not there was not measured.
  virtual std::optional<Provenance> kind() const;
  // One line for the header, read while painting: "step 1,234, held", "1 of 4 steps kept".
  virtual QString status() const;
  void contextMenuEvent(QContextMenuEvent* event) override;  // explains what is there
  bool event(QEvent* event) override;
  void hideEvent(QHideEvent* event) override;  // clears its text in the status bar
  // Adds to the controls at the right of the header.
  void addControl(QWidget* control);
  void addBody(QWidget* body, int stretch = 1);  // connects the readout of plots
  // "step 1,234" with ", held" when the cursor is not on the newest step, and how many array frames are kept.
  QString timeStatus(std::int64_t shown_step, bool arrays) const;

  Selection* selection_;

 private:
  class StatusLine;
  void openCard(QPoint at, const QString& title, std::function<QString()> html);
  QString title_;
  QLabel* title_label_;
  void arrangeControls();

  QHBoxLayout* header_;
  QVBoxLayout* rows_;  // of controls that do not fit into the header
  QVBoxLayout* column_;
  StatusLine* status_line_;
  std::vector<QWidget*> controls_;
  static constexpr int kInHeader = -1;
  std::vector<int> row_of_;  // of each control
  Provenance provenance_;
  QToolButton* explain_button_;
};

// Notices for panels without data, the same in every panel.
QString noRunNotice();
QString noDataYetNotice();
QString notInLogNotice(const RunInfo& info, const QString& what);

}  // namespace moescope
