// The findings as a list, the most severe first; at first only some of them are shown. A click on a finding selects its
// run, layer, expert, tensor and steps in all panels, and opens its text: what was seen, why it matters, and which
// settings affect it.
#pragma once

#include <QComboBox>
#include <QLabel>
#include <QPushButton>
#include <QScrollArea>
#include <vector>

#include "core/config/run_settings.h"
#include "widgets/look/fitted_text.h"
#include "widgets/look/sign.h"
#include "widgets/overview/findings_watch.h"
#include "widgets/panel/panel.h"

namespace moescope {

class FindingRow;

class FindingsPanel : public Panel {
  Q_OBJECT

 public:
  FindingsPanel(Selection* selection, FindingsWatch* watch, QWidget* parent = nullptr);
  ValueTable table() const override;
  QString explain() const override { return explanation({watch_->read().toHtmlEscaped(), watch_->checksHtml()}); }
  void open(const QString& id);  // opens the finding with this finding_id(), if it is listed

 signals:
  void countChanged(int ongoing);                                        // number of ongoing findings, for the title
  void elementOpened(const OperandElement& element, std::int64_t step);  // of the active run; for the microscope
  void operandOpened(const OperandPlace& operand, std::int64_t step);    // of the finding that open() was called for

  void saveWanted(const QString& text);  // all findings as text, for a file

 protected:
  QString status() const override;
  void keyPressEvent(QKeyEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void choose(int row);  // opens a finding and shows its evidence; -1: closes the open one
  int rows() const { return to_int(rows_.size()); }
  void addOptions();
  void fill();
  std::vector<const Finding*> listed() const;  // of equal findings of several runs, the first
  std::vector<const Finding*> groupOf(const Finding& finding, const std::vector<const Finding*>& all) const;
  void makeRows(const std::vector<const Finding*>& shown);
  std::size_t wholeRows(bool has_more) const;
  const Finding& findingAt(int place) const;
  int rowOf(const std::string& id) const;  // row of the finding with this finding_id(); -1: it is not listed
  void showEvidence(const Finding& finding);
  void showHealthy();

  FindingsWatch* watch_;
  QWidget* body_;  // the scrolling list and the link below it
  QScrollArea* scroll_;
  QWidget* list_;
  QVBoxLayout* column_;
  QLabel *healthy_, *more_;
  QComboBox* layers_;
  std::vector<FindingRow*> rows_;
  std::string chosen_;  // finding_id() of the open finding
  QAction* show_muted_;
  bool all_shown_ = false;
};

// One finding: a line and, below it while the finding is open, its text and buttons.
class FindingRow : public QFrame {
  Q_OBJECT

 public:
  FindingRow(const Finding& finding, QWidget* parent);
  // `run`: letter of the run; empty if there is only one run.
  void show(const Finding& finding, const QString& run, bool muted, bool open);
  // Shows where the settings that affect the finding can be changed, or, for a run of another program, what its log
  // says about them.
  void showSettings(const RunSettings& settings);
  const Finding& finding() const { return finding_; }

 signals:
  void clicked();
  void knobRequested(const QString& key);
  void elementOpened(const OperandElement& element);
  void muteRequested(bool muted);
  void expertChosen(int expert);  // an expert of the finding's first layer was clicked

 protected:
  void mousePressEvent(QMouseEvent* event) override;
  void paintEvent(QPaintEvent* event) override;

 private:
  void addLine();
  void addDetails();
  void showWords();
  void follow(const QString& link);

  bool all_experts_ = false;  // all experts are named in the text
  Finding finding_;
  SignLabel* sign_;
  QLabel *title_, *words_, *stated_;
  FittedLabel* steps_;
  QWidget* details_;
  QList<QPushButton*> knobs_;
  QPushButton* mute_;
};

// Steps of a finding as text, from long to short.
QStringList findingSteps(const Finding& finding);
QColor severityColor(Severity severity, bool dark);
Sign signOf(const Finding& finding);

}  // namespace moescope
