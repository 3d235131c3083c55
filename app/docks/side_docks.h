// The docks at the sides of the workspaces: actions on the run in training, and notes.
#pragma once

#include <QDockWidget>
#include <QWidget>
#include <map>
#include <string>
#include <vector>

#include "core/config/config_field.h"
#include "core/config/run_config.h"
#include "core/frame/frame.h"
#include "core/training/engine/checkpoint_ring.h"

class QComboBox;
class QGridLayout;
class QLabel;
class QListWidget;
class QMenu;
class QPushButton;
class QSlider;

namespace moescope {

class FieldEditor;
class RunSession;
class Selection;

// A dock beside the workspaces: a rounded surface with its title and a button that closes it. It is dragged by the
// title.
class SideDock : public QDockWidget {
  Q_OBJECT

 public:
  SideDock(const QString& title, QWidget* parent);

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  void keepOffEdges(Qt::DockWidgetArea area);
  QRect surface() const { return contentsRect().adjusted(-1, -1, 1, 1); }
};

// Notes that the user pins to steps of the active run: a list to go to, edit and delete them. The recording keeps them,
// both in training and when it is opened.
class NotesDock : public SideDock {
  Q_OBJECT

 public:
  NotesDock(RunSession* session, Selection* selection, QWidget* parent = nullptr);

  void addActionsTo(QMenu* menu);  // adds entries about the cursor's step and the entry that shows this dock
  void addActionsTo(QMenu* menu, qint64 step);  // adds entries about `step`
  void ask(qint64 step);                        // asks for the text of a new or existing note at `step`
  void pin(qint64 step, const QString& text);   // pins a note to `step`; an empty text removes it

 signals:
  void pinned();
  void refused(QString reason);

 private:
  QWidget* makeContent();
  bool hasNote(qint64 step) const;
  void fill();
  qint64 chosen() const;  // -1: none

  RunSession* session_;
  Selection* selection_;
  QListWidget* list_;
  QPushButton *edit_, *remove_;
  std::vector<Marker> shown_;
};

// Sets the share of each domain in the batches. data.mixture is set when a slider is released.
class MixtureEditor : public QWidget {
  Q_OBJECT

 public:
  explicit MixtureEditor(QWidget* parent = nullptr);
  void setDomains(const std::vector<std::string>& domains);
  // Sets the sliders without a signal. Empty: all sliders are equal, and the shares are those of the data.
  void setMixture(const std::string& text);

 signals:
  void mixtureChosen(QString text);

 private:
  struct Row {
    QLabel* name;
    QSlider* slider;
    QLabel* share;
  };
  void choose();
  void showShares();

  QGridLayout* grid_;
  QPushButton* even_;
  std::vector<std::string> domains_;
  std::vector<Row> rows_;
  bool as_data_lie_ = true;
};

// Actions on the run in training besides the settings of the live bar: router actions, the mixture of domains, and
// checkpoints to rewind to.
class ActionsDock : public SideDock {
  Q_OBJECT

 public:
  explicit ActionsDock(QWidget* parent = nullptr);

  // Shows the settings of the active run; nullptr: no run. Unless `live`, they cannot be changed.
  void showConfig(const RunConfig* config, bool live);
  void showDomains(const std::vector<std::string>& domains);
  void showCheckpoints(const std::vector<KeptCheckpoint>& checkpoints);
  void showProblem(const QString& problem);
  FieldEditor* editor(Setting setting) const { return editors_.at(setting); }
  qint64 chosenCheckpoint() const;  // step of the selected checkpoint; -1: none

 signals:
  void changeRequested(moescope::Setting setting, moescope::ConfigValue value);
  void keepRequested();
  void rewindRequested(qint64 step);
  void branchRequested(qint64 step);

 private:
  QWidget* makeFields();
  QWidget* makeCheckpoints();

  std::map<Setting, FieldEditor*> editors_;
  MixtureEditor* mixture_;
  QComboBox* checkpoints_;
  QPushButton *rewind_, *branch_, *keep_;
  QLabel *words_, *problem_;
  bool live_ = false;
};

}  // namespace moescope
