import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicIntegerArray;

/**
 * The entrants in Java. bench/README.md describes the messages that an entrant reads and prints.
 * The first argument is the library: a name of Locks. Each owner is a thread.
 */
public final class Peer {
  /** Takes a lock, calls work and releases the lock. */
  interface Pair {
    void run(Work work) throws Exception;
  }

  /** What an owner does under a lock. */
  interface Work {
    void run() throws Exception;
  }

  private final JsonNode job;
  private final Pair[] pairs;
  private final String marks;
  private final AtomicIntegerArray inside;
  private int broken;

  private Peer(JsonNode job, Locks locks) throws Exception {
    this.job = job;
    marks = job.path("marks").asText("");
    pairs = new Pair[job.get("owners").asInt()];
    inside = new AtomicIntegerArray(job.get("names").asInt());
    for (int i = 0; i < pairs.length; i++) {
      pairs[i] = locks.newPair(job.get("prefix").asText() + "/" + i % inside.length());
    }
  }

  // The witness counts how often two owners hold the same lock at once. A flag detects this within
  // one process. Between processes, a file detects it: only one process can create it.
  private void enter(int number) throws IOException {
    boolean isAlone = inside.compareAndSet(number, 0, 1);
    if (!isAlone || !marks.isEmpty() && !new File(marks, "" + number).createNewFile()) {
      synchronized (this) {
        broken++;
      }
    }
  }

  private void leave(int number) {
    if (!marks.isEmpty()) {
      new File(marks, "" + number).delete();
    }
    inside.set(number, 0);
  }

  /** A window counts complete pairs. */
  private final class Window {
    final long from = System.nanoTime();
    final double seconds;
    final int holds;
    final double hold = job.get("hold").asDouble();
    int count;
    double last;

    Window(JsonNode command) {
      seconds = command.path("seconds").asDouble(Double.POSITIVE_INFINITY);
      holds = command.path("holds").asInt(Integer.MAX_VALUE);
    }

    double elapsed() {
      return (System.nanoTime() - from) / 1e9;
    }

    // An owner that gets the lock when the window is over releases it at once, so that the
    // remaining waiters finish quickly.
    void work(int number) throws Exception {
      if (elapsed() >= seconds) {
        return;
      }
      enter(number);
      if (hold > 0) {
        Thread.sleep(Math.round(hold * 1000));
      }
      leave(number);
    }

    // A pair that ended after the end of the window does not count.
    synchronized void countPair() {
      double at = elapsed();
      if (at < seconds) {
        count++;
        last = at;
      }
    }

    void runOwner(int i) {
      try {
        for (int done = 0; done < holds && elapsed() < seconds; done++) {
          pairs[i].run(() -> work(i % inside.length()));
          countPair();
        }
      } catch (Exception e) {
        System.err.println(e);
        System.exit(1);
      }
    }

    String run() throws InterruptedException {
      Thread[] owners = new Thread[pairs.length];
      for (int i = 0; i < owners.length; i++) {
        int number = i;
        owners[i] = new Thread(() -> runOwner(number));
        owners[i].start();
      }
      for (Thread owner : owners) {
        owner.join();
      }
      return String.format(Locale.ROOT, "{\"pairs\":%d,\"seconds\":%f,\"broken\":%d}", count, last,
          broken);
    }
  }

  public static void main(String[] args) throws Exception {
    ObjectMapper json = new ObjectMapper();
    JsonNode job = json.readTree(args[1]);
    Locks locks = Locks.of(args[0], job);
    Peer peer = new Peer(job, locks);
    System.out.println("ready " + locks.version() + ", Java " + Runtime.version());
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      System.out.println(peer.new Window(json.readTree(line)).run());
    }
    System.exit(0);
  }
}
