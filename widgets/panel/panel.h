// A panel: a header (name, kind of numbers, state, at most two controls, a menu, "?"), a line with a question and its
// answer, and one or more plots. Controls that do not fit in the header are entries of the menu. The window docks the
// panel and gets its picture (QWidget::grab), table and explanation.
#pragma once

#include <QComboBox>
#include <QHBoxLayout>
#include <QLabel>
#include <QMenu>
#include <QPointer>
#include <QToolButton>
#include <QVBoxLayout>
#include <QVariantMap>
#include <QWidget>
#include <functional>
#include <optional>
#include <vector>

#include "core/files/text/value_table.h"
#include "core/findings/explain/explain.h"
#include "core/frame/metrics.h"
#include "widgets/plots/color_scale.h"
#include "widgets/plots/plot_frame.h"
#include "widgets/selection/selection.h"

namespace moescope {

class Panel : public QWidget {
  Q_OBJECT

 public:
  Panel(Selection* selection, const QString& title, Provenance provenance, QWidget* parent = nullptr);

  const QString& title() const { return title_; }
  // The shown values. The CSV file, copies and readouts derive from it.
  virtual ValueTable table() const = 0;
  QString csv() const { return QString::fromStdString(to_csv(table())); }
  QString csvFile() const;  // csv() with a column "source": caption() and the active run
  // Rich text of the panel's card: what it shows, formulas, sources, how to read it. By default explanation().
  virtual QString explain() const { return explanation(); }
  std::optional<FigureTarget> figureUnder(QPoint position) const;  // figure of a plot or tile; global position
  // Opens the explain card of the figure at a global position, or of the whole panel if there is no figure.
  void explainAt(QPoint position);
  // Settings of this panel that are stored between sessions.
  QVariantMap saveState() const;
  void restoreState(const QVariantMap& state);

  // Replaces the title in the header: "Expert 16 of layer 12".
  void setHeading(const QString& heading);

  QWidget* header() const { return header_; }  // handle for dragging the dock
  // Sets the page of the manual to which the panel's cards link; an empty path: none.
  void setManualPage(const QString& path, const QString& title) {
    manual_page_ = path;
    manual_title_ = title;
  }
  QMenu* menu() const { return menu_; }  // menu of the header, filled whenever it opens
  void addToMenu(const QList<QAction*>& actions) { window_actions_ << actions; }  // adds entries below the panel's own
  // For exported pictures: the header's text ("measured, step 1,234") with the settings of its controls, and the area
  // below the header.
  QString caption() const;
  QRect bodyRect() const;
  // Question and answer as one text, for exported pictures and screen readers; empty if there is no answer.
  QString answerText() const;
  // Colour scale for exported pictures whose plot has no room for it; empty if there is none.
  const std::function<LegendScale()>& pictureLegend() const { return picture_legend_; }
  QSize minimumSizeHint() const override { return {300, 160}; }
  QSize sizeHint() const override { return {460, 260}; }

 signals:
  void readoutChanged(const QString& text);     // text for the status bar
  void knobRequested(const QString& key);       // from an explain card
  void lessonRequested(const QString& number);  // from an explain card
  void manualRequested(const QString& page);    // from an explain card
  void accountRequested();                      // what was read from the log, from a notice of what is not in it

 protected:
  // The value of a metric that this panel shows, for the cards of explain(). By default it is the value of the selected
  // layer, expert and tensor at the cursor's step, or of the whole run for metrics without layers.
  virtual FigureTarget target(const MetricInfo& info) const;
  // The text of assets/panels/NAME.html, named after the class (LoadOverTimePanel: load_over_time), with `values` in
  // place of its %1, %2, ..., by default measuredWhere(), and the cards of these figures in place of "{cards KEY KEY}".
  QString explanation(const QStringList& values = {}) const;
  // A card with the present values. Inside panels it hides the function metricCard() of explain_card.h.
  QString metricCard(const MetricInfo& info) const;
  QString cardOf(Explanation figure) const;  // names the run if several are open
  // The kind of the shown numbers; for panels of a run it depends on the run. nullopt if there are no numbers yet.
  virtual std::optional<Provenance> kind() const;
  // One line for the header, read while painting: "step 1,234, at the cursor", "1 of 4 steps kept".
  virtual QString status() const { return {}; }
  void contextMenuEvent(QContextMenuEvent* event) override;  // opens the explain card of the position
  void focusInEvent(QFocusEvent* event) override;
  bool event(QEvent* event) override;
  void hideEvent(QHideEvent* event) override;  // clears its text in the status bar
  // Adds a control at the right of the header, a flat combo box or a switch. Its accessible name is its name in the
  // menu.
  void addControl(QWidget* control);
  // Adds a rarely used control as an entry of the menu only; the menu leaves it out while it is hidden.
  void addOption(QWidget* control);
  void addOption(QAction* action) { options_ << action; }

  // Makes a list of choices that is named for screen readers; it is not yet in the header.
  QComboBox* makeChoice(const QStringList& items, const QString& name, const QString& tip = {});
  QComboBox* makeLayersChoice(const QString& all,
                              const QString& name);  // all layers, and the selected one by its number
  QToolButton* makeToggle(const QString& text, const QString& tip);
  // Makes two buttons that step to the previous item (-1) and to the next (1).
  QWidget* makeSteps(const QString& previous, const QString& next, const std::function<void(int direction)>& step);
  // Adds a value to saveState() and restoreState(): the index of the choice, whether the button is checked, or any
  // other value. `restore` gets an invalid value if `save` returned one.
  void keepState(const QString& key, QComboBox* choice);
  void keepState(const QString& key, QAbstractButton* button);
  void keepState(const QString& key, std::function<QVariant()> save, std::function<void(const QVariant&)> restore);
  // The readout of the row of table() whose first values are `keys`; empty if there is none.
  QStringList readout(std::span<const TableValue> keys) const;
  QStringList readout(std::initializer_list<TableValue> keys) const { return readout(std::span(keys)); }
  // True if the active run has steps; otherwise sets a notice in the plot.
  bool hasSteps(PlotFrame* plot) const;
  // Refills the plot when data, time or focus of the selection change.
  void followSelection(PlotFrame* plot) { connect(selection_, &Selection::changed, plot, &PlotFrame::markDirty); }

  // One sentence under the header, asked for while painting.
  struct Answer {
    QString question;     // hidden first if there is little room
    QStringList answers;  // long to short
    bool failed = false;  // an error with its remedy
  };
  // No answer if `answers` is empty.
  static Answer answerTo(const QString& question, const QStringList& answers) {
    return answers.isEmpty() ? Answer{} : Answer{question, answers};
  }
  virtual Answer answer() const { return {}; }
  void showAnswers(std::function<LegendScale()> legend = {});  // shows the line; `legend`: a colour scale at its right
  void addBody(QWidget* body, int stretch = 1);  // adds the panel's content and connects the readouts of its plots
  void setPictureLegend(std::function<LegendScale()> legend) { picture_legend_ = std::move(legend); }
  void giveFocusTo(QWidget* part);  // gives the panel's focus to this part; Tab reaches it after the header
  void hideWhenLow(QWidget* body) { folds_ = body; }  // hides this part if the panel is too low to read it
  // The text "step 1,234", with ", at the cursor" if the cursor is not on the newest step, and the number of kept array
  // frames.
  QString timeStatus(std::int64_t shown_step, bool arrays) const;

  Selection* selection_;

 private:
  class StatusLine;
  class AnswerLine;
  void openCard(QPoint at, const QString& title, std::function<QString()> html);
  QString title_;
  QStringList headings_;  // long to short
  QLabel* title_label_;
  void buildHeader();
  void arrangeControls();
  void fillMenu();
  void followValues();
  void fold();
  bool hasFigures() const;

  QWidget* header_;
  QHBoxLayout* row_;  // row of the header
  QVBoxLayout* column_;
  StatusLine* status_line_;
  std::function<LegendScale()> picture_legend_;
  QPointer<QWidget> focused_part_;     // part with the panel's focus; nullptr: the panel itself
  QWidget* folds_ = nullptr;           // part hidden in a low panel; nullptr: none
  AnswerLine* answer_line_ = nullptr;  // nullptr: the panel has no answer
  struct Control {
    QWidget* widget;
    QWidget* place;  // widget around the control in the header; nullptr: in the menu only
  };
  std::vector<Control> controls_;
  QWidget* menu_controls_;  // parent of the controls that are in the menu only; never shown
  struct KeptState {
    QString key;
    std::function<QVariant()> save;
    std::function<void(const QVariant&)> restore;
  };
  std::vector<KeptState> kept_states_;
  mutable std::optional<ValueTable> readout_table_;  // table() since the shown values last changed
  QList<QAction*> options_, window_actions_;
  QMenu* menu_;
  QToolButton* more_button_;
  QString manual_page_, manual_title_;
  Provenance provenance_;
  QToolButton* explain_button_;
};

// Notices of panels without data.
QString noDataYetNotice(const Selection& selection);
QString notInLogNotice(const RunInfo& info, const QString& what);

}  // namespace moescope
