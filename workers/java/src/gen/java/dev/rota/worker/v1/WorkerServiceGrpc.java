package dev.rota.worker.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * Leases jobs to workers. Needs the role worker.
 * All times are durations, counted by the worker on its monotonic clock from the moment it sent the request that the
 * answer belongs to. A fence is the only proof of a lease; an outcome with another fence is refused.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class WorkerServiceGrpc {

  private WorkerServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "rota.worker.v1.WorkerService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<dev.rota.worker.v1.OpenSessionRequest,
      dev.rota.worker.v1.OpenSessionResponse> getOpenSessionMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "OpenSession",
      requestType = dev.rota.worker.v1.OpenSessionRequest.class,
      responseType = dev.rota.worker.v1.OpenSessionResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.worker.v1.OpenSessionRequest,
      dev.rota.worker.v1.OpenSessionResponse> getOpenSessionMethod() {
    io.grpc.MethodDescriptor<dev.rota.worker.v1.OpenSessionRequest, dev.rota.worker.v1.OpenSessionResponse> getOpenSessionMethod;
    if ((getOpenSessionMethod = WorkerServiceGrpc.getOpenSessionMethod) == null) {
      synchronized (WorkerServiceGrpc.class) {
        if ((getOpenSessionMethod = WorkerServiceGrpc.getOpenSessionMethod) == null) {
          WorkerServiceGrpc.getOpenSessionMethod = getOpenSessionMethod =
              io.grpc.MethodDescriptor.<dev.rota.worker.v1.OpenSessionRequest, dev.rota.worker.v1.OpenSessionResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "OpenSession"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.worker.v1.OpenSessionRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.worker.v1.OpenSessionResponse.getDefaultInstance()))
              .setSchemaDescriptor(new WorkerServiceMethodDescriptorSupplier("OpenSession"))
              .build();
        }
      }
    }
    return getOpenSessionMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.rota.worker.v1.LeaseRequest,
      dev.rota.worker.v1.LeaseResponse> getLeaseMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Lease",
      requestType = dev.rota.worker.v1.LeaseRequest.class,
      responseType = dev.rota.worker.v1.LeaseResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.worker.v1.LeaseRequest,
      dev.rota.worker.v1.LeaseResponse> getLeaseMethod() {
    io.grpc.MethodDescriptor<dev.rota.worker.v1.LeaseRequest, dev.rota.worker.v1.LeaseResponse> getLeaseMethod;
    if ((getLeaseMethod = WorkerServiceGrpc.getLeaseMethod) == null) {
      synchronized (WorkerServiceGrpc.class) {
        if ((getLeaseMethod = WorkerServiceGrpc.getLeaseMethod) == null) {
          WorkerServiceGrpc.getLeaseMethod = getLeaseMethod =
              io.grpc.MethodDescriptor.<dev.rota.worker.v1.LeaseRequest, dev.rota.worker.v1.LeaseResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Lease"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.worker.v1.LeaseRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.worker.v1.LeaseResponse.getDefaultInstance()))
              .setSchemaDescriptor(new WorkerServiceMethodDescriptorSupplier("Lease"))
              .build();
        }
      }
    }
    return getLeaseMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.rota.worker.v1.HeartbeatRequest,
      dev.rota.worker.v1.HeartbeatResponse> getHeartbeatMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Heartbeat",
      requestType = dev.rota.worker.v1.HeartbeatRequest.class,
      responseType = dev.rota.worker.v1.HeartbeatResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.BIDI_STREAMING)
  public static io.grpc.MethodDescriptor<dev.rota.worker.v1.HeartbeatRequest,
      dev.rota.worker.v1.HeartbeatResponse> getHeartbeatMethod() {
    io.grpc.MethodDescriptor<dev.rota.worker.v1.HeartbeatRequest, dev.rota.worker.v1.HeartbeatResponse> getHeartbeatMethod;
    if ((getHeartbeatMethod = WorkerServiceGrpc.getHeartbeatMethod) == null) {
      synchronized (WorkerServiceGrpc.class) {
        if ((getHeartbeatMethod = WorkerServiceGrpc.getHeartbeatMethod) == null) {
          WorkerServiceGrpc.getHeartbeatMethod = getHeartbeatMethod =
              io.grpc.MethodDescriptor.<dev.rota.worker.v1.HeartbeatRequest, dev.rota.worker.v1.HeartbeatResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.BIDI_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Heartbeat"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.worker.v1.HeartbeatRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.worker.v1.HeartbeatResponse.getDefaultInstance()))
              .setSchemaDescriptor(new WorkerServiceMethodDescriptorSupplier("Heartbeat"))
              .build();
        }
      }
    }
    return getHeartbeatMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.rota.worker.v1.SendHeartbeatRequest,
      dev.rota.worker.v1.SendHeartbeatResponse> getSendHeartbeatMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "SendHeartbeat",
      requestType = dev.rota.worker.v1.SendHeartbeatRequest.class,
      responseType = dev.rota.worker.v1.SendHeartbeatResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.worker.v1.SendHeartbeatRequest,
      dev.rota.worker.v1.SendHeartbeatResponse> getSendHeartbeatMethod() {
    io.grpc.MethodDescriptor<dev.rota.worker.v1.SendHeartbeatRequest, dev.rota.worker.v1.SendHeartbeatResponse> getSendHeartbeatMethod;
    if ((getSendHeartbeatMethod = WorkerServiceGrpc.getSendHeartbeatMethod) == null) {
      synchronized (WorkerServiceGrpc.class) {
        if ((getSendHeartbeatMethod = WorkerServiceGrpc.getSendHeartbeatMethod) == null) {
          WorkerServiceGrpc.getSendHeartbeatMethod = getSendHeartbeatMethod =
              io.grpc.MethodDescriptor.<dev.rota.worker.v1.SendHeartbeatRequest, dev.rota.worker.v1.SendHeartbeatResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "SendHeartbeat"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.worker.v1.SendHeartbeatRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.worker.v1.SendHeartbeatResponse.getDefaultInstance()))
              .setSchemaDescriptor(new WorkerServiceMethodDescriptorSupplier("SendHeartbeat"))
              .build();
        }
      }
    }
    return getSendHeartbeatMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.rota.worker.v1.CompleteRequest,
      dev.rota.worker.v1.CompleteResponse> getCompleteMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Complete",
      requestType = dev.rota.worker.v1.CompleteRequest.class,
      responseType = dev.rota.worker.v1.CompleteResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.worker.v1.CompleteRequest,
      dev.rota.worker.v1.CompleteResponse> getCompleteMethod() {
    io.grpc.MethodDescriptor<dev.rota.worker.v1.CompleteRequest, dev.rota.worker.v1.CompleteResponse> getCompleteMethod;
    if ((getCompleteMethod = WorkerServiceGrpc.getCompleteMethod) == null) {
      synchronized (WorkerServiceGrpc.class) {
        if ((getCompleteMethod = WorkerServiceGrpc.getCompleteMethod) == null) {
          WorkerServiceGrpc.getCompleteMethod = getCompleteMethod =
              io.grpc.MethodDescriptor.<dev.rota.worker.v1.CompleteRequest, dev.rota.worker.v1.CompleteResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Complete"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.worker.v1.CompleteRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.worker.v1.CompleteResponse.getDefaultInstance()))
              .setSchemaDescriptor(new WorkerServiceMethodDescriptorSupplier("Complete"))
              .build();
        }
      }
    }
    return getCompleteMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.rota.worker.v1.CompleteJobRequest,
      dev.rota.worker.v1.CompleteJobResponse> getCompleteJobMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CompleteJob",
      requestType = dev.rota.worker.v1.CompleteJobRequest.class,
      responseType = dev.rota.worker.v1.CompleteJobResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.worker.v1.CompleteJobRequest,
      dev.rota.worker.v1.CompleteJobResponse> getCompleteJobMethod() {
    io.grpc.MethodDescriptor<dev.rota.worker.v1.CompleteJobRequest, dev.rota.worker.v1.CompleteJobResponse> getCompleteJobMethod;
    if ((getCompleteJobMethod = WorkerServiceGrpc.getCompleteJobMethod) == null) {
      synchronized (WorkerServiceGrpc.class) {
        if ((getCompleteJobMethod = WorkerServiceGrpc.getCompleteJobMethod) == null) {
          WorkerServiceGrpc.getCompleteJobMethod = getCompleteJobMethod =
              io.grpc.MethodDescriptor.<dev.rota.worker.v1.CompleteJobRequest, dev.rota.worker.v1.CompleteJobResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CompleteJob"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.worker.v1.CompleteJobRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.worker.v1.CompleteJobResponse.getDefaultInstance()))
              .setSchemaDescriptor(new WorkerServiceMethodDescriptorSupplier("CompleteJob"))
              .build();
        }
      }
    }
    return getCompleteJobMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.rota.worker.v1.BeginEffectRequest,
      dev.rota.worker.v1.BeginEffectResponse> getBeginEffectMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "BeginEffect",
      requestType = dev.rota.worker.v1.BeginEffectRequest.class,
      responseType = dev.rota.worker.v1.BeginEffectResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.worker.v1.BeginEffectRequest,
      dev.rota.worker.v1.BeginEffectResponse> getBeginEffectMethod() {
    io.grpc.MethodDescriptor<dev.rota.worker.v1.BeginEffectRequest, dev.rota.worker.v1.BeginEffectResponse> getBeginEffectMethod;
    if ((getBeginEffectMethod = WorkerServiceGrpc.getBeginEffectMethod) == null) {
      synchronized (WorkerServiceGrpc.class) {
        if ((getBeginEffectMethod = WorkerServiceGrpc.getBeginEffectMethod) == null) {
          WorkerServiceGrpc.getBeginEffectMethod = getBeginEffectMethod =
              io.grpc.MethodDescriptor.<dev.rota.worker.v1.BeginEffectRequest, dev.rota.worker.v1.BeginEffectResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "BeginEffect"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.worker.v1.BeginEffectRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.worker.v1.BeginEffectResponse.getDefaultInstance()))
              .setSchemaDescriptor(new WorkerServiceMethodDescriptorSupplier("BeginEffect"))
              .build();
        }
      }
    }
    return getBeginEffectMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.rota.worker.v1.CommitEffectRequest,
      dev.rota.worker.v1.CommitEffectResponse> getCommitEffectMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CommitEffect",
      requestType = dev.rota.worker.v1.CommitEffectRequest.class,
      responseType = dev.rota.worker.v1.CommitEffectResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.worker.v1.CommitEffectRequest,
      dev.rota.worker.v1.CommitEffectResponse> getCommitEffectMethod() {
    io.grpc.MethodDescriptor<dev.rota.worker.v1.CommitEffectRequest, dev.rota.worker.v1.CommitEffectResponse> getCommitEffectMethod;
    if ((getCommitEffectMethod = WorkerServiceGrpc.getCommitEffectMethod) == null) {
      synchronized (WorkerServiceGrpc.class) {
        if ((getCommitEffectMethod = WorkerServiceGrpc.getCommitEffectMethod) == null) {
          WorkerServiceGrpc.getCommitEffectMethod = getCommitEffectMethod =
              io.grpc.MethodDescriptor.<dev.rota.worker.v1.CommitEffectRequest, dev.rota.worker.v1.CommitEffectResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CommitEffect"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.worker.v1.CommitEffectRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.worker.v1.CommitEffectResponse.getDefaultInstance()))
              .setSchemaDescriptor(new WorkerServiceMethodDescriptorSupplier("CommitEffect"))
              .build();
        }
      }
    }
    return getCommitEffectMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.rota.worker.v1.CloseSessionRequest,
      dev.rota.worker.v1.CloseSessionResponse> getCloseSessionMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CloseSession",
      requestType = dev.rota.worker.v1.CloseSessionRequest.class,
      responseType = dev.rota.worker.v1.CloseSessionResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.worker.v1.CloseSessionRequest,
      dev.rota.worker.v1.CloseSessionResponse> getCloseSessionMethod() {
    io.grpc.MethodDescriptor<dev.rota.worker.v1.CloseSessionRequest, dev.rota.worker.v1.CloseSessionResponse> getCloseSessionMethod;
    if ((getCloseSessionMethod = WorkerServiceGrpc.getCloseSessionMethod) == null) {
      synchronized (WorkerServiceGrpc.class) {
        if ((getCloseSessionMethod = WorkerServiceGrpc.getCloseSessionMethod) == null) {
          WorkerServiceGrpc.getCloseSessionMethod = getCloseSessionMethod =
              io.grpc.MethodDescriptor.<dev.rota.worker.v1.CloseSessionRequest, dev.rota.worker.v1.CloseSessionResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CloseSession"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.worker.v1.CloseSessionRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.worker.v1.CloseSessionResponse.getDefaultInstance()))
              .setSchemaDescriptor(new WorkerServiceMethodDescriptorSupplier("CloseSession"))
              .build();
        }
      }
    }
    return getCloseSessionMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static WorkerServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<WorkerServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<WorkerServiceStub>() {
        @java.lang.Override
        public WorkerServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new WorkerServiceStub(channel, callOptions);
        }
      };
    return WorkerServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static WorkerServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<WorkerServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<WorkerServiceBlockingV2Stub>() {
        @java.lang.Override
        public WorkerServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new WorkerServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return WorkerServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static WorkerServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<WorkerServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<WorkerServiceBlockingStub>() {
        @java.lang.Override
        public WorkerServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new WorkerServiceBlockingStub(channel, callOptions);
        }
      };
    return WorkerServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static WorkerServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<WorkerServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<WorkerServiceFutureStub>() {
        @java.lang.Override
        public WorkerServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new WorkerServiceFutureStub(channel, callOptions);
        }
      };
    return WorkerServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * Leases jobs to workers. Needs the role worker.
   * All times are durations, counted by the worker on its monotonic clock from the moment it sent the request that the
   * answer belongs to. A fence is the only proof of a lease; an outcome with another fence is refused.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Registers one running worker process.
     * </pre>
     */
    default void openSession(dev.rota.worker.v1.OpenSessionRequest request,
        io.grpc.stub.StreamObserver<dev.rota.worker.v1.OpenSessionResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getOpenSessionMethod(), responseObserver);
    }

    /**
     * <pre>
     * Waits for jobs. At most one call in flight per poller; the same request_id until an answer arrives.
     * </pre>
     */
    default void lease(dev.rota.worker.v1.LeaseRequest request,
        io.grpc.stub.StreamObserver<dev.rota.worker.v1.LeaseResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getLeaseMethod(), responseObserver);
    }

    /**
     * <pre>
     * Keeps the session alive over a stream. The end of the stream says nothing of the worker.
     * </pre>
     */
    default io.grpc.stub.StreamObserver<dev.rota.worker.v1.HeartbeatRequest> heartbeat(
        io.grpc.stub.StreamObserver<dev.rota.worker.v1.HeartbeatResponse> responseObserver) {
      return io.grpc.stub.ServerCalls.asyncUnimplementedStreamingCall(getHeartbeatMethod(), responseObserver);
    }

    /**
     * <pre>
     * One beat without a stream.
     * </pre>
     */
    default void sendHeartbeat(dev.rota.worker.v1.SendHeartbeatRequest request,
        io.grpc.stub.StreamObserver<dev.rota.worker.v1.SendHeartbeatResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getSendHeartbeatMethod(), responseObserver);
    }

    /**
     * <pre>
     * Reports outcomes, one status for each; not atomic as a whole.
     * </pre>
     */
    default void complete(dev.rota.worker.v1.CompleteRequest request,
        io.grpc.stub.StreamObserver<dev.rota.worker.v1.CompleteResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCompleteMethod(), responseObserver);
    }

    /**
     * <pre>
     * Reports one outcome; a refusal is the call's own status.
     * </pre>
     */
    default void completeJob(dev.rota.worker.v1.CompleteJobRequest request,
        io.grpc.stub.StreamObserver<dev.rota.worker.v1.CompleteJobResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCompleteJobMethod(), responseObserver);
    }

    /**
     * <pre>
     * Writes down that an effect is about to be tried, before a target that cannot deduplicate is called.
     * </pre>
     */
    default void beginEffect(dev.rota.worker.v1.BeginEffectRequest request,
        io.grpc.stub.StreamObserver<dev.rota.worker.v1.BeginEffectResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getBeginEffectMethod(), responseObserver);
    }

    /**
     * <pre>
     * Writes down how it ended.
     * </pre>
     */
    default void commitEffect(dev.rota.worker.v1.CommitEffectRequest request,
        io.grpc.stub.StreamObserver<dev.rota.worker.v1.CommitEffectResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCommitEffectMethod(), responseObserver);
    }

    /**
     * <pre>
     * Ends a session, or its wish for new jobs.
     * </pre>
     */
    default void closeSession(dev.rota.worker.v1.CloseSessionRequest request,
        io.grpc.stub.StreamObserver<dev.rota.worker.v1.CloseSessionResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCloseSessionMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service WorkerService.
   * <pre>
   * Leases jobs to workers. Needs the role worker.
   * All times are durations, counted by the worker on its monotonic clock from the moment it sent the request that the
   * answer belongs to. A fence is the only proof of a lease; an outcome with another fence is refused.
   * </pre>
   */
  public static abstract class WorkerServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return WorkerServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service WorkerService.
   * <pre>
   * Leases jobs to workers. Needs the role worker.
   * All times are durations, counted by the worker on its monotonic clock from the moment it sent the request that the
   * answer belongs to. A fence is the only proof of a lease; an outcome with another fence is refused.
   * </pre>
   */
  public static final class WorkerServiceStub
      extends io.grpc.stub.AbstractAsyncStub<WorkerServiceStub> {
    private WorkerServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected WorkerServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new WorkerServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Registers one running worker process.
     * </pre>
     */
    public void openSession(dev.rota.worker.v1.OpenSessionRequest request,
        io.grpc.stub.StreamObserver<dev.rota.worker.v1.OpenSessionResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getOpenSessionMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Waits for jobs. At most one call in flight per poller; the same request_id until an answer arrives.
     * </pre>
     */
    public void lease(dev.rota.worker.v1.LeaseRequest request,
        io.grpc.stub.StreamObserver<dev.rota.worker.v1.LeaseResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getLeaseMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Keeps the session alive over a stream. The end of the stream says nothing of the worker.
     * </pre>
     */
    public io.grpc.stub.StreamObserver<dev.rota.worker.v1.HeartbeatRequest> heartbeat(
        io.grpc.stub.StreamObserver<dev.rota.worker.v1.HeartbeatResponse> responseObserver) {
      return io.grpc.stub.ClientCalls.asyncBidiStreamingCall(
          getChannel().newCall(getHeartbeatMethod(), getCallOptions()), responseObserver);
    }

    /**
     * <pre>
     * One beat without a stream.
     * </pre>
     */
    public void sendHeartbeat(dev.rota.worker.v1.SendHeartbeatRequest request,
        io.grpc.stub.StreamObserver<dev.rota.worker.v1.SendHeartbeatResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getSendHeartbeatMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Reports outcomes, one status for each; not atomic as a whole.
     * </pre>
     */
    public void complete(dev.rota.worker.v1.CompleteRequest request,
        io.grpc.stub.StreamObserver<dev.rota.worker.v1.CompleteResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCompleteMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Reports one outcome; a refusal is the call's own status.
     * </pre>
     */
    public void completeJob(dev.rota.worker.v1.CompleteJobRequest request,
        io.grpc.stub.StreamObserver<dev.rota.worker.v1.CompleteJobResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCompleteJobMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Writes down that an effect is about to be tried, before a target that cannot deduplicate is called.
     * </pre>
     */
    public void beginEffect(dev.rota.worker.v1.BeginEffectRequest request,
        io.grpc.stub.StreamObserver<dev.rota.worker.v1.BeginEffectResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getBeginEffectMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Writes down how it ended.
     * </pre>
     */
    public void commitEffect(dev.rota.worker.v1.CommitEffectRequest request,
        io.grpc.stub.StreamObserver<dev.rota.worker.v1.CommitEffectResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCommitEffectMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Ends a session, or its wish for new jobs.
     * </pre>
     */
    public void closeSession(dev.rota.worker.v1.CloseSessionRequest request,
        io.grpc.stub.StreamObserver<dev.rota.worker.v1.CloseSessionResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCloseSessionMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service WorkerService.
   * <pre>
   * Leases jobs to workers. Needs the role worker.
   * All times are durations, counted by the worker on its monotonic clock from the moment it sent the request that the
   * answer belongs to. A fence is the only proof of a lease; an outcome with another fence is refused.
   * </pre>
   */
  public static final class WorkerServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<WorkerServiceBlockingV2Stub> {
    private WorkerServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected WorkerServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new WorkerServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Registers one running worker process.
     * </pre>
     */
    public dev.rota.worker.v1.OpenSessionResponse openSession(dev.rota.worker.v1.OpenSessionRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getOpenSessionMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Waits for jobs. At most one call in flight per poller; the same request_id until an answer arrives.
     * </pre>
     */
    public dev.rota.worker.v1.LeaseResponse lease(dev.rota.worker.v1.LeaseRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getLeaseMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Keeps the session alive over a stream. The end of the stream says nothing of the worker.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<dev.rota.worker.v1.HeartbeatRequest, dev.rota.worker.v1.HeartbeatResponse>
        heartbeat() {
      return io.grpc.stub.ClientCalls.blockingBidiStreamingCall(
          getChannel(), getHeartbeatMethod(), getCallOptions());
    }

    /**
     * <pre>
     * One beat without a stream.
     * </pre>
     */
    public dev.rota.worker.v1.SendHeartbeatResponse sendHeartbeat(dev.rota.worker.v1.SendHeartbeatRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getSendHeartbeatMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Reports outcomes, one status for each; not atomic as a whole.
     * </pre>
     */
    public dev.rota.worker.v1.CompleteResponse complete(dev.rota.worker.v1.CompleteRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCompleteMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Reports one outcome; a refusal is the call's own status.
     * </pre>
     */
    public dev.rota.worker.v1.CompleteJobResponse completeJob(dev.rota.worker.v1.CompleteJobRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCompleteJobMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Writes down that an effect is about to be tried, before a target that cannot deduplicate is called.
     * </pre>
     */
    public dev.rota.worker.v1.BeginEffectResponse beginEffect(dev.rota.worker.v1.BeginEffectRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getBeginEffectMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Writes down how it ended.
     * </pre>
     */
    public dev.rota.worker.v1.CommitEffectResponse commitEffect(dev.rota.worker.v1.CommitEffectRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCommitEffectMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Ends a session, or its wish for new jobs.
     * </pre>
     */
    public dev.rota.worker.v1.CloseSessionResponse closeSession(dev.rota.worker.v1.CloseSessionRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCloseSessionMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service WorkerService.
   * <pre>
   * Leases jobs to workers. Needs the role worker.
   * All times are durations, counted by the worker on its monotonic clock from the moment it sent the request that the
   * answer belongs to. A fence is the only proof of a lease; an outcome with another fence is refused.
   * </pre>
   */
  public static final class WorkerServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<WorkerServiceBlockingStub> {
    private WorkerServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected WorkerServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new WorkerServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Registers one running worker process.
     * </pre>
     */
    public dev.rota.worker.v1.OpenSessionResponse openSession(dev.rota.worker.v1.OpenSessionRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getOpenSessionMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Waits for jobs. At most one call in flight per poller; the same request_id until an answer arrives.
     * </pre>
     */
    public dev.rota.worker.v1.LeaseResponse lease(dev.rota.worker.v1.LeaseRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getLeaseMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * One beat without a stream.
     * </pre>
     */
    public dev.rota.worker.v1.SendHeartbeatResponse sendHeartbeat(dev.rota.worker.v1.SendHeartbeatRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getSendHeartbeatMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Reports outcomes, one status for each; not atomic as a whole.
     * </pre>
     */
    public dev.rota.worker.v1.CompleteResponse complete(dev.rota.worker.v1.CompleteRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCompleteMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Reports one outcome; a refusal is the call's own status.
     * </pre>
     */
    public dev.rota.worker.v1.CompleteJobResponse completeJob(dev.rota.worker.v1.CompleteJobRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCompleteJobMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Writes down that an effect is about to be tried, before a target that cannot deduplicate is called.
     * </pre>
     */
    public dev.rota.worker.v1.BeginEffectResponse beginEffect(dev.rota.worker.v1.BeginEffectRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getBeginEffectMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Writes down how it ended.
     * </pre>
     */
    public dev.rota.worker.v1.CommitEffectResponse commitEffect(dev.rota.worker.v1.CommitEffectRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCommitEffectMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Ends a session, or its wish for new jobs.
     * </pre>
     */
    public dev.rota.worker.v1.CloseSessionResponse closeSession(dev.rota.worker.v1.CloseSessionRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCloseSessionMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service WorkerService.
   * <pre>
   * Leases jobs to workers. Needs the role worker.
   * All times are durations, counted by the worker on its monotonic clock from the moment it sent the request that the
   * answer belongs to. A fence is the only proof of a lease; an outcome with another fence is refused.
   * </pre>
   */
  public static final class WorkerServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<WorkerServiceFutureStub> {
    private WorkerServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected WorkerServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new WorkerServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Registers one running worker process.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.worker.v1.OpenSessionResponse> openSession(
        dev.rota.worker.v1.OpenSessionRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getOpenSessionMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Waits for jobs. At most one call in flight per poller; the same request_id until an answer arrives.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.worker.v1.LeaseResponse> lease(
        dev.rota.worker.v1.LeaseRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getLeaseMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * One beat without a stream.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.worker.v1.SendHeartbeatResponse> sendHeartbeat(
        dev.rota.worker.v1.SendHeartbeatRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getSendHeartbeatMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Reports outcomes, one status for each; not atomic as a whole.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.worker.v1.CompleteResponse> complete(
        dev.rota.worker.v1.CompleteRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCompleteMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Reports one outcome; a refusal is the call's own status.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.worker.v1.CompleteJobResponse> completeJob(
        dev.rota.worker.v1.CompleteJobRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCompleteJobMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Writes down that an effect is about to be tried, before a target that cannot deduplicate is called.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.worker.v1.BeginEffectResponse> beginEffect(
        dev.rota.worker.v1.BeginEffectRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getBeginEffectMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Writes down how it ended.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.worker.v1.CommitEffectResponse> commitEffect(
        dev.rota.worker.v1.CommitEffectRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCommitEffectMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Ends a session, or its wish for new jobs.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.worker.v1.CloseSessionResponse> closeSession(
        dev.rota.worker.v1.CloseSessionRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCloseSessionMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_OPEN_SESSION = 0;
  private static final int METHODID_LEASE = 1;
  private static final int METHODID_SEND_HEARTBEAT = 2;
  private static final int METHODID_COMPLETE = 3;
  private static final int METHODID_COMPLETE_JOB = 4;
  private static final int METHODID_BEGIN_EFFECT = 5;
  private static final int METHODID_COMMIT_EFFECT = 6;
  private static final int METHODID_CLOSE_SESSION = 7;
  private static final int METHODID_HEARTBEAT = 8;

  private static final class MethodHandlers<Req, Resp> implements
      io.grpc.stub.ServerCalls.UnaryMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ServerStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ClientStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.BidiStreamingMethod<Req, Resp> {
    private final AsyncService serviceImpl;
    private final int methodId;

    MethodHandlers(AsyncService serviceImpl, int methodId) {
      this.serviceImpl = serviceImpl;
      this.methodId = methodId;
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public void invoke(Req request, io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        case METHODID_OPEN_SESSION:
          serviceImpl.openSession((dev.rota.worker.v1.OpenSessionRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.worker.v1.OpenSessionResponse>) responseObserver);
          break;
        case METHODID_LEASE:
          serviceImpl.lease((dev.rota.worker.v1.LeaseRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.worker.v1.LeaseResponse>) responseObserver);
          break;
        case METHODID_SEND_HEARTBEAT:
          serviceImpl.sendHeartbeat((dev.rota.worker.v1.SendHeartbeatRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.worker.v1.SendHeartbeatResponse>) responseObserver);
          break;
        case METHODID_COMPLETE:
          serviceImpl.complete((dev.rota.worker.v1.CompleteRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.worker.v1.CompleteResponse>) responseObserver);
          break;
        case METHODID_COMPLETE_JOB:
          serviceImpl.completeJob((dev.rota.worker.v1.CompleteJobRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.worker.v1.CompleteJobResponse>) responseObserver);
          break;
        case METHODID_BEGIN_EFFECT:
          serviceImpl.beginEffect((dev.rota.worker.v1.BeginEffectRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.worker.v1.BeginEffectResponse>) responseObserver);
          break;
        case METHODID_COMMIT_EFFECT:
          serviceImpl.commitEffect((dev.rota.worker.v1.CommitEffectRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.worker.v1.CommitEffectResponse>) responseObserver);
          break;
        case METHODID_CLOSE_SESSION:
          serviceImpl.closeSession((dev.rota.worker.v1.CloseSessionRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.worker.v1.CloseSessionResponse>) responseObserver);
          break;
        default:
          throw new AssertionError();
      }
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public io.grpc.stub.StreamObserver<Req> invoke(
        io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        case METHODID_HEARTBEAT:
          return (io.grpc.stub.StreamObserver<Req>) serviceImpl.heartbeat(
              (io.grpc.stub.StreamObserver<dev.rota.worker.v1.HeartbeatResponse>) responseObserver);
        default:
          throw new AssertionError();
      }
    }
  }

  public static final io.grpc.ServerServiceDefinition bindService(AsyncService service) {
    return io.grpc.ServerServiceDefinition.builder(getServiceDescriptor())
        .addMethod(
          getOpenSessionMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.worker.v1.OpenSessionRequest,
              dev.rota.worker.v1.OpenSessionResponse>(
                service, METHODID_OPEN_SESSION)))
        .addMethod(
          getLeaseMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.worker.v1.LeaseRequest,
              dev.rota.worker.v1.LeaseResponse>(
                service, METHODID_LEASE)))
        .addMethod(
          getHeartbeatMethod(),
          io.grpc.stub.ServerCalls.asyncBidiStreamingCall(
            new MethodHandlers<
              dev.rota.worker.v1.HeartbeatRequest,
              dev.rota.worker.v1.HeartbeatResponse>(
                service, METHODID_HEARTBEAT)))
        .addMethod(
          getSendHeartbeatMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.worker.v1.SendHeartbeatRequest,
              dev.rota.worker.v1.SendHeartbeatResponse>(
                service, METHODID_SEND_HEARTBEAT)))
        .addMethod(
          getCompleteMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.worker.v1.CompleteRequest,
              dev.rota.worker.v1.CompleteResponse>(
                service, METHODID_COMPLETE)))
        .addMethod(
          getCompleteJobMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.worker.v1.CompleteJobRequest,
              dev.rota.worker.v1.CompleteJobResponse>(
                service, METHODID_COMPLETE_JOB)))
        .addMethod(
          getBeginEffectMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.worker.v1.BeginEffectRequest,
              dev.rota.worker.v1.BeginEffectResponse>(
                service, METHODID_BEGIN_EFFECT)))
        .addMethod(
          getCommitEffectMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.worker.v1.CommitEffectRequest,
              dev.rota.worker.v1.CommitEffectResponse>(
                service, METHODID_COMMIT_EFFECT)))
        .addMethod(
          getCloseSessionMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.worker.v1.CloseSessionRequest,
              dev.rota.worker.v1.CloseSessionResponse>(
                service, METHODID_CLOSE_SESSION)))
        .build();
  }

  private static abstract class WorkerServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    WorkerServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return dev.rota.worker.v1.Worker.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("WorkerService");
    }
  }

  private static final class WorkerServiceFileDescriptorSupplier
      extends WorkerServiceBaseDescriptorSupplier {
    WorkerServiceFileDescriptorSupplier() {}
  }

  private static final class WorkerServiceMethodDescriptorSupplier
      extends WorkerServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    WorkerServiceMethodDescriptorSupplier(java.lang.String methodName) {
      this.methodName = methodName;
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.MethodDescriptor getMethodDescriptor() {
      return getServiceDescriptor().findMethodByName(methodName);
    }
  }

  private static volatile io.grpc.ServiceDescriptor serviceDescriptor;

  public static io.grpc.ServiceDescriptor getServiceDescriptor() {
    io.grpc.ServiceDescriptor result = serviceDescriptor;
    if (result == null) {
      synchronized (WorkerServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new WorkerServiceFileDescriptorSupplier())
              .addMethod(getOpenSessionMethod())
              .addMethod(getLeaseMethod())
              .addMethod(getHeartbeatMethod())
              .addMethod(getSendHeartbeatMethod())
              .addMethod(getCompleteMethod())
              .addMethod(getCompleteJobMethod())
              .addMethod(getBeginEffectMethod())
              .addMethod(getCommitEffectMethod())
              .addMethod(getCloseSessionMethod())
              .build();
        }
      }
    }
    return result;
  }
}
