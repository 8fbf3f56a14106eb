import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import io.etcd.jetcd.Election;
import io.etcd.jetcd.election.LeaderKey;
import io.etcd.jetcd.election.LeaderResponse;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

/**
 * Uses etcd's Lock and Election services through jetcd. It reads commands, one per line, and prints
 * a line for each when it is done: "lock" prints "held KEY", "unlock" prints "unlocked", "campaign
 * VALUE" prints "leads", "proclaim VALUE" prints "proclaimed", "resign" prints "resigned", "leader"
 * prints "leader VALUE", and "observe" prints "saw VALUE" for each leader.
 *
 * <p>Arguments: ENDPOINT NAME
 */
public final class Jetcd {
  private Jetcd() {}

  private static ByteSequence bytes(String text) {
    return ByteSequence.from(text, StandardCharsets.UTF_8);
  }

  private static String text(LeaderResponse response) {
    return response.getKv().getValue().toString(StandardCharsets.UTF_8);
  }

  private static void observe(Election election, ByteSequence name) {
    election.observe(name, new Election.Listener() {
      @Override public void onNext(LeaderResponse response) {
        System.out.println("saw " + text(response));
      }

      @Override public void onError(Throwable error) {
        System.err.println(error);
      }

      @Override public void onCompleted() {}
    });
  }

  public static void main(String[] args) throws Exception {
    Client client = Client.builder().endpoints(args[0]).build();
    Election election = client.getElectionClient();
    ByteSequence name = bytes(args[1]);
    ByteSequence held = null;
    LeaderKey leader = null;
    long lease = client.getLeaseClient().grant(60).get().getID();
    System.out.println("ready");
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] words = line.split(" ");
      switch (words[0]) {
        case "lock":
          held = client.getLockClient().lock(name, lease).get().getKey();
          System.out.println("held " + held.toString(StandardCharsets.UTF_8));
          break;
        case "unlock":
          client.getLockClient().unlock(held).get();
          System.out.println("unlocked");
          break;
        case "campaign":
          leader = election.campaign(name, lease, bytes(words[1])).get().getLeader();
          System.out.println("leads");
          break;
        case "proclaim":
          election.proclaim(leader, bytes(words[1])).get();
          System.out.println("proclaimed");
          break;
        case "leader":
          System.out.println("leader " + text(election.leader(name).get()));
          break;
        case "observe":
          observe(election, name);
          break;
        default:
          election.resign(leader).get();
          System.out.println("resigned");
      }
    }
    client.getLeaseClient().revoke(lease).get();
    System.exit(0);
  }
}
