import com.fasterxml.jackson.databind.JsonNode;
import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import io.etcd.jetcd.lease.LeaseKeepAliveResponse;
import io.grpc.stub.StreamObserver;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.locks.Lock;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** The lock libraries for Peer, each with its defaults. */
abstract class Locks {
  private final Class<?> library;

  private Locks(Class<?> library) {
    this.library = library;
  }

  abstract Peer.Pair newPair(String name) throws Exception;

  /** Returns the name and version of the library, from the name of its jar. */
  String version() {
    String path = library.getProtectionDomain().getCodeSource().getLocation().getPath();
    return path.replaceAll(".*/([a-z-]+)-([0-9.]+)\\.jar", "$1 $2");
  }

  static Locks of(String name, JsonNode job) throws Exception {
    String endpoint = job.get("endpoint").asText();
    switch (name) {
      case "jetcd":
        return new Jetcd(endpoint, job.get("owners").asInt() > job.get("names").asInt());
      case "curator":
        return new Curator(endpoint);
      case "redisson":
        return new RedissonLocks(endpoint, false);
      case "fair":
        return new RedissonLocks(endpoint, true);
      default:
        throw new IllegalArgumentException(name);
    }
  }

  /**
   * The Lock service of etcd. Locks of the same lease would all be held at once, so if several
   * owners use one name, each has a lease of its own.
   */
  private static final class Jetcd extends Locks {
    private final Client client;
    private final boolean hasOwnLeases;
    private long lease;

    Jetcd(String endpoint, boolean hasOwnLeases) {
      super(Client.class);
      client = Client.builder().endpoints(endpoint).build();
      this.hasOwnLeases = hasOwnLeases;
    }

    private long newLease() throws Exception {
      long id = client.getLeaseClient().grant(60).get().getID();
      client.getLeaseClient().keepAlive(id, new StreamObserver<LeaseKeepAliveResponse>() {
        @Override public void onNext(LeaseKeepAliveResponse response) {}

        @Override public void onError(Throwable error) {}

        @Override public void onCompleted() {}
      });
      return id;
    }

    @Override Peer.Pair newPair(String name) throws Exception {
      if (lease == 0 || hasOwnLeases) {
        lease = newLease();
      }
      long own = lease;
      ByteSequence key = ByteSequence.from(name, StandardCharsets.UTF_8);
      return work -> {
        ByteSequence held = client.getLockClient().lock(key, own).get().getKey();
        work.run();
        client.getLockClient().unlock(held).get();
      };
    }
  }

  private static final class Curator extends Locks {
    private final CuratorFramework client;

    Curator(String endpoint) throws Exception {
      super(InterProcessMutex.class);
      client = CuratorFrameworkFactory.newClient(endpoint, new ExponentialBackoffRetry(1000, 3));
      client.start();
      client.blockUntilConnected();
    }

    @Override Peer.Pair newPair(String name) {
      InterProcessMutex mutex = new InterProcessMutex(client, "/" + name);
      return work -> {
        mutex.acquire();
        work.run();
        mutex.release();
      };
    }
  }

  private static final class RedissonLocks extends Locks {
    private final RedissonClient client;
    private final boolean isFair;

    RedissonLocks(String endpoint, boolean isFair) {
      super(Redisson.class);
      Config config = new Config();
      config.useSingleServer().setAddress("redis://" + endpoint);
      client = Redisson.create(config);
      this.isFair = isFair;
    }

    @Override Peer.Pair newPair(String name) {
      Lock lock = isFair ? client.getFairLock(name) : client.getLock(name);
      return work -> {
        lock.lock();
        work.run();
        lock.unlock();
      };
    }
  }
}
