// Notes that the user pins to steps of the active run: a list to go to, edit and delete them. The recording keeps them,
// both in training and when it is opened.
#pragma once

#include <vector>

#include "app/docks/side_dock.h"
#include "core/frame/frame.h"

class QListWidget;
class QMenu;
class QPushButton;

namespace moescope {

class RunSession;
class Selection;

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

}  // namespace moescope
