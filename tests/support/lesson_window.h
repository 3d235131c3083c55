// A window in which lessons are taken with keys and clicks, as a person takes them.
#pragma once

#include <QLabel>
#include <QPushButton>
#include <QRadioButton>
#include <QSignalSpy>
#include <QTest>
#include <algorithm>

#include "app/actions/run_control.h"
#include "app/lessons/lesson_actions.h"
#include "app/lessons/lesson_guide.h"
#include "app/lessons/lesson_pane.h"
#include "app/window/main_window.h"
#include "tests/support/takes_keys.h"

namespace moescope {

inline constexpr int kLessonWaitMs = 240000;

struct LessonWindow {
  MainWindow window{false};
  LessonWindow() {
    window.runControl()->setRecorded(false);
    window.show();
    if (!QTest::qWaitForWindowExposed(&window)) qFatal("no window");
  }
  LessonPane* pane() { return window.findChild<LessonPane*>(); }
  LessonGuide* guide() { return window.findChild<LessonGuide*>(); }
  QList<QRadioButton*> choices() { return pane()->findChildren<QRadioButton*>(); }
  QList<LessonTaskButton*> tasks() {
    QList<LessonTaskButton*> all;
    for (QPushButton* button : pane()->findChildren<QPushButton*>("lesson_task"))
      all << static_cast<LessonTaskButton*>(button);
    return all;
  }
  const QList<LessonFigureRow>& figures() { return pane()->findChild<LessonFigureList*>()->rows(); }
  QPushButton* next() { return pane()->findChild<QPushButton*>("lesson_next"); }
  QPushButton* reveal() { return pane()->findChild<QPushButton*>("lesson_reveal"); }
  int step() {  // counted from 0; the page counts from 1
    return pane()->findChild<QLabel*>("lesson_step")->text().section("tep ", 1, 1).section(' ', 0, 0).toInt() - 1;
  }
  QString pageText() {
    QString all;
    for (const QLabel* label : pane()->findChildren<QLabel*>())
      if (label->isVisibleTo(pane())) all += label->text() + "\n";
    return all;
  }
  // Does the next thing of the lesson (Ctrl+Return). Waits for the keys, which a progress bar may have taken meanwhile.
  void goOn() {
    QVERIFY(takesKeys(&window));
    QTest::keyClick(&window, Qt::Key_Return, Qt::ControlModifier);
  }
  void open(const char* lesson) {
    QSignalSpy opened(window.session(), &RunSession::opened);
    window.lessons()->start(lesson);
    QVERIFY(guide()->active());
    if (!guide()->lesson().runs.empty()) QVERIFY(opened.wait(kLessonWaitMs));
    QVERIFY(takesKeys(&window));
  }
  // Completes a step: chooses the right prediction (skips one of a number), does the tasks, and reveals the result.
  void takeStep() {
    const LessonStep& step = guide()->lesson().steps[static_cast<std::size_t>(this->step())];
    if (step.prediction && !step.prediction->choices.empty()) {
      QRadioButton* choice = choices()[step.prediction->right];
      choice->setFocus();
      QTest::keyClick(choice, Qt::Key_Space);
    } else if (step.prediction) {
      choices().last()->click();
    }
    for (int i = 0; i < tasks().size(); ++i) {
      QTRY_VERIFY_WITH_TIMEOUT(tasks()[i]->isEnabled(), kLessonWaitMs);
      goOn();
      QTRY_VERIFY_WITH_TIMEOUT(tasks()[i]->done(), kLessonWaitMs);
    }
    if (step.reveal.empty()) return;
    QTRY_VERIFY(reveal()->isVisible());
    QVERIFY(!next()->isVisible());  // only one of the two buttons is visible
    goOn();
    QTRY_VERIFY(pageText().contains("What happened"));
    QVERIFY2(!pageText().contains("differs from the lesson"), qPrintable(pageText()));
    QTRY_VERIFY(next()->isVisible() && next()->isEnabled());
  }
  void takeLesson() {
    const int steps = static_cast<int>(guide()->lesson().steps.size());
    for (int step = 0; step < steps; ++step) {
      QCOMPARE(this->step(), step);
      takeStep();
      if (QTest::currentTestFailed()) return;
      QTest::keyClick(&window, Qt::Key_Right, Qt::AltModifier);
    }
  }
};

// True if no task is ticked and no figure has a value.
inline bool nothingIsJudged(LessonWindow& open) {
  for (const LessonTaskButton* task : open.tasks())
    if (task->done()) return false;
  return std::ranges::all_of(open.figures(),
                             [](const LessonFigureRow& row) { return row.kind == LessonFigureRow::Kind::missing; });
}

}  // namespace moescope
