// Guided lessons in the window: their dock, menu and keys, the question before a run is replaced, and the scores.
#pragma once

#include <QMap>
#include <QString>
#include <QStringList>

#include "app/actions/actions.h"

class QMenuBar;

namespace moescope {

struct Lesson;
class LessonGuide;
class LessonPane;
class WindowLayout;

// Which lessons and exhibits were taken to their end, the one that is open, and where the others were left.
struct LessonProgress {
  QStringList finished;      // names
  QString open_lesson;       // name; empty: none
  QMap<QString, int> steps;  // of lessons that were begun and have not been taken to their end; from 0

  bool isDone(const Lesson& lesson) const;
  QString placeIn(const Lesson& lesson) const;  // "step 2 of 3"; empty: not begun, or at its end
};

class LessonActions : public Actions {
  Q_OBJECT

 public:
  // Docks the pane at the right of the window. `keeps_scores`: the scores and steps are stored between sessions.
  LessonActions(const Context& context, QMainWindow* window, LessonGuide* guide, LessonPane* pane, WindowLayout* layout,
                bool keeps_scores);

  void addMenuTo(QMenuBar* bar);
  enum class Ask { before_replacing, never };
  // Starts a built-in lesson by name or number, or a file. Asks before it replaces a run of the user.
  void start(const QString& name_or_path, Ask ask = Ask::before_replacing);
  void leave();
  bool active() const;
  LessonProgress progress() const;
  void setPaneShown(bool shown);               // a page over the whole window hides the pane of an open lesson
  void askForm(const QString& problem_set);    // asks for a student's name and writes the student's form
  void askHandIn(const QString& problem_set);  // asks for a filled form, trains its runs and writes the hand-in
  LessonGuide* guide() const { return guide_; }

 signals:
  void started();
  void lessonLeft();
  void pageRequested();  // the page of all lessons

 private:
  void makeDock();
  void keepStep(const QString& lesson, int step);
  void begin(const QString& name_or_path);
  void writeForm(const QString& problem_set, const QString& student);
  void writeHandIn(const QString& problem_set, const QString& form);
  void save(const QString& title, const QString& suggested, const std::string& text);
  void showPane();
  void startNext();
  void giveWindowBack();

  QMainWindow* window_;
  LessonGuide* guide_;
  LessonPane* pane_;
  WindowLayout* layout_;
  QDockWidget* dock_;
  const bool keeps_scores_;
  QStringList finished_;
  QMap<QString, int> steps_;  // as in LessonProgress
  QString student_, folder_;  // of the last form
};

}  // namespace moescope
